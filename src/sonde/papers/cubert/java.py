"""Program tokens of Java: the tokens of javalang, with comments and blanks as tokens of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap

from sonde.languages.engine.program_tokens import (
    COMMENT,
    EOS,
    ERROR,
    ERROR_LEXEMES,
    IDENTIFIER,
    KEYWORD,
    NEWLINE,
    NEWLINE_TOKEN,
    NUMBER,
    PUNCTUATION,
    STRING,
    TEXT_BY_TOKEN,
    WHITESPACE,
    Lexeme,
    build_locator,
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


class JavaProgram:
    """The facet ``program`` of Java; see `sonde.languages.engine.program_tokens.ProgramLexer`.

    As released: the end of a text that the lexer accepts is spelled as nothing, comments and blanks stay,
    blanks before a line break go, and a tab is one blank.
    """

    skipped: frozenset[str] = frozenset()

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text; a character that begins no token is an error token."""
        try:
            decoded_text, origin = lexer._unescape(text)
            spans = list(_iterate_token_spans(decoded_text))
        except lexer.LexerError:
            return ERROR_LEXEMES
        locate = build_locator(decoded_text)

        def build_lexeme(surface: str, kind: str, start: int, end: int) -> Lexeme:
            offset = start if origin is None else origin[start]
            return Lexeme(surface, kind, locate(start), locate(end), offset)

        lexemes: list[Lexeme] = []
        for kind, start, end in spans:
            if kind == WHITESPACE:
                lexemes += starmap(build_lexeme, _split_blank(decoded_text[start:end], start))
            else:
                # A lone surrogate has no UTF-8, which the released tokenizer asks of every token.
                surface = decoded_text[start:end].encode("utf-8", "replace").decode("utf-8")
                lexemes.append(build_lexeme(surface, kind, start, end))
        return [*lexemes, build_lexeme("", EOS, len(decoded_text), len(decoded_text))]

    def program(self, tokens: Sequence[str]) -> str:
        """Join the tokens, with line breaks as such."""
        return "".join(TEXT_BY_TOKEN.get(token, token) for token in tokens)


def _iterate_token_spans(decoded_text: str) -> Iterator[tuple[str, int, int]]:
    """Yield kind, start and end of tokens that hold every character, spaces and comments included.

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
        yield kind, position, end
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


def _split_blank(blank: str, start: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield line breaks, and the spaces after the last of them: surface, kind, start and end."""
    first = start
    *lines, spaces = blank.split("\n")
    for line in lines:
        # A break begins where the token before it ends, blanks at the end of a line included.
        end = start + len(line) + 1
        yield NEWLINE_TOKEN, NEWLINE, first, end
        first = start = end
    if spaces:
        yield " " * len(spaces), WHITESPACE, start, start + len(spaces)


def facet(language: TreeSitterLanguage) -> JavaProgram:
    """Return the facet ``program``."""
    return JavaProgram()
