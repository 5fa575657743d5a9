"""Program tokens of Java: the tokens of javalang, with comments and blanks as tokens of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sonde.languages.engine.program_tokens import (
    COMMENT,
    EOS,
    EOS_TOKEN,
    ERROR,
    ERROR_TOKEN,
    IDENTIFIER,
    KEYWORD,
    NEWLINE,
    NEWLINE_TOKEN,
    NUMBER,
    PUNCTUATION,
    STRING,
    WHITESPACE,
    Lexeme,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers import javalang_tokens as lexer

# javalang's keywords and modifiers; its basic types (`int`) are identifiers to CuBERT, its literals text.
_KEYWORDS = frozenset(
    (
        *("abstract", "assert", "break", "case", "catch", "class", "const", "continue", "default", "do"),
        *("else", "enum", "extends", "final", "finally", "for", "goto", "if", "implements", "import"),
        *("instanceof", "interface", "native", "new", "package", "private", "protected", "public", "return"),
        *("static", "strictfp", "super", "switch", "synchronized", "this", "throw", "throws", "transient"),
        *("try", "void", "volatile", "while"),
    )
)
_LITERALS = frozenset(("true", "false", "null"))
_DIGITS = "0123456789"
_ERROR_LEXEMES = (Lexeme(ERROR_TOKEN, ERROR, (0, 0), (0, 0), 0), Lexeme(EOS_TOKEN, EOS, (0, 0), (0, 0), 0))

_TOKEN_TEXTS = {NEWLINE_TOKEN: "\n", ERROR_TOKEN: ""}


@dataclass(frozen=True, slots=True)
class _TokenSpan:
    """Characters of the decoded text that are one token; tokens meet."""

    kind: str
    start: int
    end: int


class JavaProgram:
    """The facet ``program`` of Java; see `sonde.languages.engine.program_tokens.ProgramLexer`.

    As released: the end of a text that the lexer accepts is spelled as nothing, comments and blanks stay,
    blanks before a line break go, and a tab is one blank.
    """

    version = "1"
    skipped: frozenset[str] = frozenset()

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text; a character that begins no token is an error token."""
        try:
            decoded_text, origin = lexer._unescape(text)
            stretches = list(_iterate_token_spans(decoded_text))
        except lexer.LexerError:
            return _ERROR_LEXEMES
        cursor = _TextCursor(decoded_text, origin)
        lexemes: list[Lexeme] = []
        for span in stretches:
            if span.kind == WHITESPACE:
                lexemes += _blank_lexemes(decoded_text[span.start : span.end], cursor, span.start)
            else:
                # A lone surrogate has no UTF-8, which the released tokenizer asks of every token.
                surface = decoded_text[span.start : span.end].encode("utf-8", "replace").decode("utf-8")
                lexemes.append(cursor.lexeme(surface, span.kind, span.start, span.end))
        lexemes.append(cursor.lexeme("", EOS, len(decoded_text), len(decoded_text)))
        return lexemes

    def program(self, tokens: Sequence[str]) -> str:
        """Join the tokens, with line breaks as such."""
        return "".join(_TOKEN_TEXTS.get(token, token) for token in tokens)


class _TextCursor:
    """Lines, columns and characters of a decoded text."""

    def __init__(self, decoded_text: str, origin: list[int] | None) -> None:
        self._origin = origin
        self._decoded = decoded_text
        self._line, self._begin, self._reached = 0, 0, 0

    def lexeme(self, surface: str, kind: str, start: int, end: int) -> Lexeme:
        """Build a token from characters of the decoded text; call it in text order."""
        first, stop = self.position(start), self.position(end)
        offset = start if self._origin is None else self._origin[start]
        return Lexeme(surface, kind, first, stop, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character that is not before the last one requested."""
        breaks = self._decoded.count("\n", self._reached, offset)
        if breaks:
            self._line += breaks
            self._begin = self._decoded.rfind("\n", self._reached, offset) + 1
        self._reached = offset
        return self._line, offset - self._begin


def _iterate_token_spans(decoded_text: str) -> Iterator[_TokenSpan]:
    """Yield every character of a text in one token, including spaces and comments.

    Raises:
        LexerError: A string, comment or number that is none in Java.
    """
    position, size = 0, len(decoded_text)
    while position < size:
        character, pair = decoded_text[position], decoded_text[position : position + 2]
        if character.isspace():
            kind, end = WHITESPACE, position + 1
            while end < size and decoded_text[end].isspace():
                end += 1
        elif pair in ("//", "/*"):
            kind, end = COMMENT, lexer._comment_end(decoded_text, position, pair)
        else:
            kind, end = _read_word(decoded_text, position, character, pair)
        yield _TokenSpan(kind, position, end)
        position = end


def _read_word(decoded_text: str, position: int, character: str, pair: str) -> tuple[str, int]:
    number = character in _DIGITS or (character == "." and pair[1:].isdigit())
    try:
        end = lexer._word_end(decoded_text, position, character, pair, text_blocks=False)
    except lexer.LexerError:
        if number or character in "\"'":
            raise
        return ERROR, position + 1
    if character in "\"'":
        return STRING, end
    if number:
        return NUMBER, end
    if character == "@":
        return IDENTIFIER, end
    if not lexer.begins_name(character):
        return PUNCTUATION, end
    word = decoded_text[position:end]
    if word in _LITERALS:
        return STRING, end
    return KEYWORD if word in _KEYWORDS else IDENTIFIER, end


def _blank_lexemes(blank: str, cursor: _TextCursor, start: int) -> Iterator[Lexeme]:
    """Yield line breaks, and the spaces after the last of them."""
    first = start
    for number, line in enumerate(lines := blank.split("\n")):
        if number < len(lines) - 1:
            # A break begins where the token before it ends, blanks at the end of a line included.
            end = start + len(line) + 1
            yield cursor.lexeme(NEWLINE_TOKEN, NEWLINE, first, end)
            first = start = end
        elif line:
            yield cursor.lexeme(" " * len(line), WHITESPACE, start, start + len(line))


def facet(language: TreeSitterLanguage) -> JavaProgram:
    """Return the facet ``program``."""
    return JavaProgram()
