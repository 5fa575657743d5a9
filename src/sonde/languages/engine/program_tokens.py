"""Program tokens, the input of CuBERT: the same rules for every language, after its lexer.

A language's lexer produces lexemes (text, kind, position). Skipped kinds are dropped; a reserved spelling
becomes a keyword, which is never split; identifiers are split at underscores and case, text (strings,
comments, whitespace) at changes between classes of characters; pieces longer than 15 characters are cut;
characters that could be mistaken for a separator are replaced; and every piece of a token but its last ends
in ``^``.

Kanade et al. 2020, section 3.3; the rules are those of the tokenizer released with the paper.

A language without a lexer of its own uses the tokens of its grammar (`GrammarLexer`). A line ends in a token
only if another token follows on a later line; whitespace gives no tokens. Text that the grammar cannot parse
is kept as it is, as punctuation.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from sonde.languages.engine.language import TokenRules
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

PUNCTUATION, KEYWORD, IDENTIFIER, STRING, COMMENT, NEWLINE, EOS, ERROR, NUMBER, WHITESPACE = KINDS = (
    "PUNCTUATION",
    "KEYWORD",
    "IDENTIFIER",
    "STRING",
    "COMMENT",
    "NEWLINE",
    "EOS",
    "ERROR",
    "NUMBER",
    "WHITESPACE",
)


JOINT = "^"
"""Ends every piece of a token but its last."""


MAX_PIECE_LENGTH = 15
"""Maximum number of characters of a piece, before they are sanitised."""


_MAX_BLANK_RUN = 20


_TEXT_KINDS = frozenset((STRING, COMMENT, WHITESPACE))


_SPLIT_KINDS = _TEXT_KINDS | {NUMBER, IDENTIFIER}


def format_special_token(name: str) -> str:
    """Return the text of a token that stands for no characters.

    >>> format_special_token("NEWLINE")
    '___NEWLINE___'
    """
    return f"___{name}___"


EOS_TOKEN, ERROR_TOKEN, NEWLINE_TOKEN = (
    format_special_token(EOS),
    format_special_token(ERROR),
    format_special_token(NEWLINE),
)


SANITISED_CHARACTERS: Mapping[str, str] = MappingProxyType(
    {
        "\n": format_special_token("NLCHAR"),
        "\r": format_special_token("CR"),
        JOINT: format_special_token("CARET"),
    }
)
"""Characters that are replaced in any token."""


_SANITISING_TABLE = str.maketrans(dict(SANITISED_CHARACTERS))


Position = tuple[int, int]
"""Line and column, both from 0."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token of the language's lexer.

    Attributes:
        surface: Its characters, or the text of a special token.
        kind: One of `KINDS`.
        start: Position of its first character.
        end: Position after its last; a line break ends at the beginning of the next line.
        offset: First character in the text; the length of the text for tokens at its end.
    """

    surface: str
    kind: str
    start: Position
    end: Position
    offset: int


ERROR_LEXEMES = (Lexeme(ERROR_TOKEN, ERROR, (0, 0), (0, 0), 0), Lexeme(EOS_TOKEN, EOS, (0, 0), (0, 0), 0))
"""The tokens of a text that a lexer rejects."""


@dataclass(frozen=True, slots=True)
class ProgramToken:
    """A token and the pieces that it is split into.

    Attributes:
        pieces: One or more, sanitised, all but the last ending in `JOINT`.
        lexeme: The token.
    """

    pieces: tuple[str, ...]
    lexeme: Lexeme


@dataclass(frozen=True, slots=True)
class TokenFormat:
    """The format of program tokens.

    Attributes:
        skipped: Kinds that are dropped; None for the default of the language.
        reserved_words: Spellings that are never split.
    """

    skipped: AbstractSet[str] | None = None
    reserved_words: AbstractSet[str] = frozenset()


PRETRAINING_FORMAT = TokenFormat()
"""The format of programs for pre-training."""


FINETUNING_FORMAT = TokenFormat(
    skipped=frozenset((COMMENT, WHITESPACE)), reserved_words=frozenset(("__HOLE__", "unknown_token_default"))
)
"""The format of functions for the tasks: no comments, no whitespace, a hole is one token."""


@runtime_checkable
class ProgramLexer(Protocol):
    """The facet ``program`` of a language: its lexer."""

    @property
    def skipped(self) -> frozenset[str]:
        """Return the kinds that are dropped by default."""
        ...

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text, including the kinds of `skipped`; the last is of kind ``EOS``.

        A text that the lexer rejects is an ``ERROR`` followed by the end.
        """
        ...

    def program(self, tokens: Sequence[str]) -> str:
        """Return a text with these tokens, the inverse of `lexemes` as far as there is one."""
        ...


def build_program_tokens(
    lexer: ProgramLexer, text: str, token_format: TokenFormat = PRETRAINING_FORMAT
) -> list[ProgramToken]:
    """Return the tokens of a text with their pieces.

    Args:
        lexer: The facet of the language.
        text: Any text.
        token_format: The kinds to drop, and the words to keep whole.
    """
    skipped_kinds = lexer.skipped if token_format.skipped is None else token_format.skipped
    return [
        ProgramToken(_split_lexeme(lexeme, token_format.reserved_words), lexeme)
        for lexeme in lexer.lexemes(text)
        if lexeme.kind not in skipped_kinds
    ]


def tokenize(lexer: ProgramLexer, text: str, token_format: TokenFormat = PRETRAINING_FORMAT) -> list[str]:
    """Return the pieces of a text in order; see `build_program_tokens`."""
    return [piece for token in build_program_tokens(lexer, text, token_format) for piece in token.pieces]


def untokenize(lexer: ProgramLexer, pieces: Sequence[str]) -> str:
    """Return a text with these pieces.

    Spaces between tokens, dropped comments and line continuations are not restored; the result has the same
    tokens.

    Args:
        lexer: The facet of the language.
        pieces: The result of `tokenize`.

    Raises:
        ValueError: The pieces do not end a program, one is empty or has a character to be replaced, or the
            last is not the last of its token.
    """
    ends = (EOS_TOKEN, lexer.lexemes("")[-1].surface)
    if not pieces or pieces[-1] not in ends:
        last_piece = repr(pieces[-1]) if pieces else "nothing"
        raise ValueError(f"program tokens end in {last_piece}; they have to end in {ends[1]!r}")
    return lexer.program(join_pieces(pieces[:-1]))


def join_pieces(pieces: Iterable[str]) -> list[str]:
    """Join pieces and undo `SANITISED_CHARACTERS`.

    >>> join_pieces(["a_^", "b", "___CARET___="])
    ['a_b', '^=']

    Raises:
        ValueError: See `untokenize`.
    """
    tokens: list[str] = []
    token = ""
    for piece in pieces:
        if not piece:
            raise ValueError(f"piece {len(tokens)} of the program tokens is empty")
        token += piece.removesuffix(JOINT)
        if not piece.endswith(JOINT):
            characters = [character for character in SANITISED_CHARACTERS if character in token]
            if characters:
                raise ValueError(
                    f"program token {token!r} has {characters[0]!r}, which is spelled out elsewhere"
                )
            for character, replacement in SANITISED_CHARACTERS.items():
                token = token.replace(replacement, character)
            tokens.append(token)
            token = ""
    if token:
        raise ValueError(f"program tokens end within a token: {token + JOINT!r}")
    return tokens


@lru_cache(maxsize=1 << 16)
def split_identifier(identifier: str) -> tuple[str, ...]:
    """Split at case and after runs of underscores.

    A letter that is neither upper nor title case counts as lower case, digits too (``S3`` is one piece).

    >>> split_identifier("__a_bCamelHTTPServer_")
    ('__', 'a_', 'b', 'Camel', 'HTTP', 'Server_')
    """
    pieces: list[str] = []
    for match in _SNAKE_CASE.finditer(identifier):
        parts = _split_camel_case(match["word"]) if match["word"] else [match["leading"]]
        parts[-1] += match["underscores"] or ""
        pieces += parts
    return tuple(pieces)


_SNAKE_CASE = re.compile(r"(?P<word>[^_]+)(?P<underscores>_*)|(?P<leading>_+)")


_CAMEL_CASE = re.compile(r"^L+|TL*|UL+|U+(?=T)|U+(?=UL)|U+$")


def _split_camel_case(word: str) -> list[str]:
    if word.islower():
        return [word]
    classes = "".join(map(_get_case, word))
    return [word[match.start() : match.end()] for match in _CAMEL_CASE.finditer(classes)]


@lru_cache(maxsize=4096)
def _get_case(character: str) -> str:
    return {"Lu": "U", "Lt": "T"}.get(unicodedata.category(character), "L")


def split_text(text: str) -> list[str]:
    """Split a text at changes between upper case, lower case, digits and other characters.

    The last of several upper case letters joins the lower case after it. Whitespace characters stand alone,
    other signs stay together; a run of one space or tab is cut after 20.

    >>> split_text("HTTPServer 2: go")
    ['HTTP', 'Server', ' ', '2', ':', ' ', 'go']
    """
    pieces: list[str] = []
    start, previous = 0, ""
    for position, character in enumerate(text):
        current = _get_character_class(character)
        if previous and _is_boundary(previous, current, text, start, position):
            pieces.append(text[start:position])
            start = position
        elif previous == "upper" and current == "lower" and position - start > 1:
            pieces.append(text[start : position - 1])
            start = position - 1
        previous = current
    if text:
        pieces.append(text[start:])
    return pieces


@lru_cache(maxsize=4096)
def _get_character_class(character: str) -> str:
    if character.isupper():
        return "upper"
    if character.islower():
        return "lower"
    return "digit" if character.isdigit() else "other"


def _is_boundary(previous: str, current: str, text: str, start: int, position: int) -> bool:
    """Return whether a piece ends between two characters; the caller handles upper before lower case."""
    if previous != current:
        return (previous, current) != ("upper", "lower")
    if current != "other":
        return False
    character, last = text[position], text[position - 1]
    if character in " \t" and character == last:
        return position - start >= _MAX_BLANK_RUN
    return character.isspace() or last.isspace()


def _split_lexeme(lexeme: Lexeme, reserved_words: AbstractSet[str]) -> tuple[str, ...]:
    kind, surface = lexeme.kind, lexeme.surface
    parts: Sequence[str] = (surface,)
    if kind in _SPLIT_KINDS and surface not in reserved_words:
        if kind == IDENTIFIER:
            parts = split_identifier(surface)
        elif kind in _TEXT_KINDS:
            parts = split_text(surface)
        parts = [
            part[offset : offset + MAX_PIECE_LENGTH]
            for part in parts
            for offset in range(0, len(part), MAX_PIECE_LENGTH)
        ]
    clean = [part.translate(_SANITISING_TABLE) for part in parts]
    return (*(part + JOINT for part in clean[:-1]), clean[-1])


TEXT_BY_TOKEN = {NEWLINE_TOKEN: "\n", ERROR_TOKEN: ""}


def build_locator(text: str) -> Callable[[int], Position]:
    """Return a function from a character of a text to its position."""
    lines = list(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0))

    def locate(offset: int) -> Position:
        line = bisect_right(lines, offset) - 1
        return line, offset - lines[line]

    return locate


class GrammarLexer:
    """The `ProgramLexer` of a language by the token rules of its grammar.

    Args:
        language: The language.
    """

    skipped = frozenset((COMMENT,))

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text; no text is rejected."""
        rules = self._language.settings.tokens
        locate = build_locator(text)
        lexemes: list[Lexeme] = []
        previous_end = 0
        for leaf in self._language.extract_leaves(self._language.parse_without_wrapper(text)):
            newline = text.find("\n", previous_end, leaf.start)
            if lexemes and newline >= 0:
                lexemes.append(
                    Lexeme(NEWLINE_TOKEN, NEWLINE, locate(newline), (locate(newline)[0] + 1, 0), newline)
                )
            if leaf.kind not in rules.layout:
                kind = _get_token_kind(leaf, rules)
                lexemes.append(Lexeme(leaf.text, kind, locate(leaf.start), locate(leaf.end), leaf.start))
            previous_end = leaf.end
        end = locate(len(text))
        return [*lexemes, Lexeme(EOS_TOKEN, EOS, end, end, len(text))]

    def program(self, tokens: Sequence[str]) -> str:
        """Join the tokens, with a space between two of a line."""
        lines = " ".join(TEXT_BY_TOKEN.get(token, token) for token in tokens).split("\n")
        return "\n".join(line.strip() for line in lines)


def _get_token_kind(leaf: Leaf, rules: TokenRules) -> str:
    """Return the kind of the program token of a leaf; the lists that come first take precedence."""
    name = leaf.kind
    role = rules.literals.get(name, "string" if name in rules.whole else "")
    if name in rules.comments:
        return COMMENT
    if role:
        return NUMBER if role == "number" else STRING
    if name in rules.identifiers:
        return IDENTIFIER
    return KEYWORD if name in rules.keywords else PUNCTUATION


facet = GrammarLexer
