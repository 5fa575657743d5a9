"""Program tokens, the input of CuBERT: the same rules for every language, after its lexer.

A language's lexer produces lexemes (text, kind, position). Skipped kinds are dropped; a reserved spelling
becomes a keyword, which is never split; identifiers are split at underscores and case, text (strings,
comments, whitespace) at changes between classes of characters; pieces longer than 15 characters are cut;
characters that could be mistaken for a separator are replaced; and every piece of a token but its last ends
in ``^``.

Kanade et al. 2020, section 3.3; the rules are those of the tokenizer released with the paper.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from sonde.languages.engine.grammar import TokenRules
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


LONGEST = 15
"""Maximum number of characters of a piece, before they are sanitised."""


_BLANK_RUN = 20


_TEXT = frozenset((STRING, COMMENT, WHITESPACE))


_CUT = _TEXT | {NUMBER, IDENTIFIER}


def special(name: str) -> str:
    """Return the text of a token that stands for no characters.

    >>> format_special_token("NEWLINE")
    '___NEWLINE___'
    """
    return f"___{name}___"


EOS_SPELLING, ERROR_SPELLING, NEWLINE_SPELLING = special(EOS), special(ERROR), special(NEWLINE)


SANITISED: Mapping[str, str] = MappingProxyType(
    {"\n": special("NLCHAR"), "\r": special("CR"), JOINT: special("CARET")}
)
"""Characters that are replaced in any token."""


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

    spelling: str
    kind: str
    start: Position
    end: Position
    offset: int


@dataclass(frozen=True, slots=True)
class ProgramToken:
    """A token and the pieces that it is split into.

    Attributes:
        pieces: One or more, sanitised, all but the last ending in `JOINT`.
        lexeme: The token.
    """

    pieces: tuple[str, ...]
    lexeme: Lexeme


def _check(mappings: Mapping[str, str]) -> None:
    """Check that mappings can be undone.

    Raises:
        ValueError: A key has several characters, `JOINT` is missing, or values are empty, equal, parts of one
            another, or contain a key.
    """
    values = list(mappings.values())
    if JOINT not in mappings:
        raise ValueError(f"mappings {dict(mappings)!r} do not spell {JOINT!r} out")
    for key, value in mappings.items():
        if len(key) != 1:
            raise ValueError(f"mapping {key!r} to {value!r}: only single characters are spelled out")
        if not value or values.count(value) > 1 or any(other in value for other in mappings):
            raise ValueError(f"mapping {key!r} to {value!r} could not be undone")
        if any(value != other and value in other for other in values):
            raise ValueError(f"mapping {key!r} to {value!r}, which is part of another, could not be undone")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The format of program tokens.

    Attributes:
        skipped: Kinds that are dropped; None for the default of the language.
        reserved_words: Spellings that are never split.
        mappings: Characters and their replacements; must include `JOINT`.

    Raises:
        ValueError: The mappings cannot be undone.
    """

    skipped: AbstractSet[str] | None = None
    reserved: AbstractSet[str] = frozenset()
    mappings: Mapping[str, str] = field(default_factory=lambda: SANITISED)

    def __post_init__(self) -> None:
        _check(self.mappings)


PUBLISHED = Conditions()
"""The format of programs for pre-training."""


FINETUNING = Conditions(
    skipped=frozenset((COMMENT, WHITESPACE)), reserved=frozenset(("__HOLE__", "unknown_token_default"))
)
"""The format of functions for the tasks: no comments, no whitespace, a hole is one token."""


@runtime_checkable
class Program(Protocol):
    """The facet ``program`` of a language: its lexer."""

    @property
    def version(self) -> str:
        """Return the version, which is raised whenever a token changes."""
        ...

    @property
    def skipped(self) -> frozenset[str]:
        """Return the kinds that are dropped by default."""
        ...

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text, including the kinds of `skipped`; the last is of kind ``EOS``.

        A text that the lexer rejects is an ``ERROR`` followed by the end.
        """
        ...

    def program(self, whole: Sequence[str]) -> str:
        """Return a text with these tokens, the inverse of `lexemes` as far as there is one."""
        ...


def program_tokens(facet: Program, text: str, conditions: Conditions = PUBLISHED) -> list[ProgramToken]:
    """Return the tokens of a text with their pieces.

    Args:
        lexer: The facet of the language.
        text: Any text.
        token_format: The kinds to drop, the words to keep whole, and the characters to replace.
    """
    left_out = facet.skipped if conditions.skipped is None else conditions.skipped
    table = str.maketrans(dict(conditions.mappings))
    return [
        ProgramToken(_pieces(lexeme, conditions.reserved, table), lexeme)
        for lexeme in facet.lexemes(text)
        if lexeme.kind not in left_out
    ]


def tokenize(facet: Program, text: str, conditions: Conditions = PUBLISHED) -> list[str]:
    """Return the pieces of a text in order; see `build_program_tokens`."""
    return [piece for token in program_tokens(facet, text, conditions) for piece in token.pieces]


def untokenize(facet: Program, pieces: Sequence[str], mappings: Mapping[str, str] = SANITISED) -> str:
    """Return a text with these pieces.

    Spaces between tokens, dropped comments and line continuations are not restored; the result has the same
    tokens.

    Args:
        lexer: The facet of the language.
        pieces: The result of `tokenize`.
        mappings: Those that it used.

    Raises:
        ValueError: The pieces do not end a program, one is empty or has a character to be replaced, or the
            last is not the last of its token.
    """
    ends = (EOS_SPELLING, facet.lexemes("")[-1].spelling)
    if not pieces or pieces[-1] not in ends:
        shown = repr(pieces[-1]) if pieces else "nothing"
        raise ValueError(f"program tokens end in {shown}; they have to end in {ends[1]!r}")
    return facet.program(whole_tokens(pieces[:-1], mappings))


def whole_tokens(pieces: Iterable[str], mappings: Mapping[str, str] = SANITISED) -> list[str]:
    """Join pieces and undo the mappings.

    >>> join_pieces(["a_^", "b", "___CARET___="])
    ['a_b', '^=']

    Raises:
        ValueError: See `untokenize`.
    """
    _check(mappings)
    whole: list[str] = []
    pending = ""
    for piece in pieces:
        if not piece:
            raise ValueError(f"piece {len(whole)} of the program tokens is empty")
        pending += piece.removesuffix(JOINT)
        if not piece.endswith(JOINT):
            found = [character for character in mappings if character in pending]
            if found:
                raise ValueError(
                    f"program token {pending!r} has {found[0]!r}, which is spelled out elsewhere"
                )
            for character, spelled in mappings.items():
                pending = pending.replace(spelled, character)
            whole.append(pending)
            pending = ""
    if pending:
        raise ValueError(f"program tokens end within a token: {pending + JOINT!r}")
    return whole


@lru_cache(maxsize=1 << 16)
def split_identifier(identifier: str) -> tuple[str, ...]:
    """Split at case and after runs of underscores.

    A letter that is neither upper nor title case counts as lower case, digits too (`S3` is one piece).

    >>> split_identifier("__a_bCamelHTTPServer_")
    ('__', 'a_', 'b', 'Camel', 'HTTP', 'Server_')
    """
    pieces: list[str] = []
    for match in _SNAKE.finditer(identifier):
        parts = _camel(match["word"]) if match["word"] else [match["leading"]]
        parts[-1] += match["underscores"] or ""
        pieces += parts
    return tuple(pieces)


_SNAKE = re.compile(r"(?P<word>[^_]+)(?P<underscores>_*)|(?P<leading>_+)")


_CAMEL = re.compile(r"^L+|TL*|UL+|U+(?=T)|U+(?=UL)|U+$")


def _camel(word: str) -> list[str]:
    if word.islower():
        return [word]
    classes = "".join(map(_case, word))
    return [word[found.start() : found.end()] for found in _CAMEL.finditer(classes)]


@lru_cache(maxsize=4096)
def _case(character: str) -> str:
    return {"Lu": "U", "Lt": "T"}.get(unicodedata.category(character), "L")


def split_text(text: str) -> list[str]:
    """Split a text at changes between upper case, lower case, digits and other characters.

    The last of several upper case letters joins the lower case after it. Whitespace characters stand alone,
    other signs stay together; a run of one space or tab is cut after 20.

    >>> split_text("HTTPServer 2: go")
    ['HTTP', 'Server', ' ', '2', ':', ' ', 'go']
    """
    pieces: list[str] = []
    begin, before = 0, ""
    for position, character in enumerate(text):
        now = _class(character)
        if before and _parts(before, now, text, begin, position):
            pieces.append(text[begin:position])
            begin = position
        elif before == "upper" and now == "lower" and position - begin > 1:
            pieces.append(text[begin : position - 1])
            begin = position - 1
        before = now
    if text:
        pieces.append(text[begin:])
    return pieces


@lru_cache(maxsize=4096)
def _class(character: str) -> str:
    if character.isupper():
        return "upper"
    if character.islower():
        return "lower"
    return "digit" if character.isdigit() else "other"


def _parts(before: str, now: str, text: str, begin: int, position: int) -> bool:
    """Return whether a piece ends between two characters; the caller handles upper before lower case."""
    if before != now:
        return (before, now) != ("upper", "lower")
    if now != "other":
        return False
    character, last = text[position], text[position - 1]
    if character in " \t" and character == last:
        return position - begin >= _BLANK_RUN
    return character.isspace() or last.isspace()


def _pieces(lexeme: Lexeme, reserved: AbstractSet[str], table: Mapping[int, str]) -> tuple[str, ...]:
    kind, spelling = lexeme.kind, lexeme.spelling
    parts: Sequence[str] = (spelling,)
    if kind in _CUT and spelling not in reserved:
        if kind == IDENTIFIER:
            parts = split_identifier(spelling)
        elif kind in _TEXT:
            parts = split_text(spelling)
        parts = [part[at : at + LONGEST] for part in parts for at in range(0, len(part), LONGEST)]
    clean = [part.translate(table) for part in parts]
    return (*(part + JOINT for part in clean[:-1]), clean[-1])


_WRITTEN = {NEWLINE_SPELLING: "\n", ERROR_SPELLING: ""}


class ProgramOf:
    """The `ProgramLexer` of a language by the token rules of its grammar.

    Args:
        language: The language.
    """

    skipped = frozenset((COMMENT,))

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self.version = language.version

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """Return all tokens of a text; no text is rejected."""
        rules = self._language.settings.tokens
        lines = list(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0))

        def place(offset: int) -> Position:
            line = bisect_right(lines, offset) - 1
            return line, offset - lines[line]

        found: list[Lexeme] = []
        before = 0
        for leaf in self._language.leaves_of(self._language.whole(text)):
            broken = text.find("\n", before, leaf.start)
            if found and broken >= 0:
                found.append(
                    Lexeme(NEWLINE_SPELLING, NEWLINE, place(broken), (place(broken)[0] + 1, 0), broken)
                )
            if leaf.kind not in rules.layout:
                kind = _kind(leaf, rules)
                found.append(Lexeme(leaf.text, kind, place(leaf.start), place(leaf.end), leaf.start))
            before = leaf.end
        end = place(len(text))
        return [*found, Lexeme(EOS_SPELLING, EOS, end, end, len(text))]

    def program(self, whole: Sequence[str]) -> str:
        """Join the tokens, with a space between two of a line."""
        lines = " ".join(_WRITTEN.get(token, token) for token in whole).split("\n")
        return "\n".join(line.strip() for line in lines)


def _kind(leaf: Leaf, rules: TokenRules) -> str:
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


def facet(language: TreeSitterLanguage) -> ProgramOf:
    """Return the facet ``program`` of a language without a lexer of its own."""
    return ProgramOf(language)
