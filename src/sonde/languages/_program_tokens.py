"""Program tokens of a language without a lexer of its own: the tokens of its grammar.

Lines end in a token where another token follows on a later line; blanks are none. Text that the grammar
cannot place stands as it is, as signs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from sonde.languages._leaves import Leaf
from sonde.languages._program import (
    COMMENT,
    EOS,
    EOS_SPELLING,
    ERROR_SPELLING,
    IDENTIFIER,
    KEYWORD,
    NEWLINE,
    NEWLINE_SPELLING,
    NUMBER,
    PUNCTUATION,
    STRING,
    Lexeme,
    Position,
)
from sonde.languages._settings import TokenRules
from sonde.languages._treesitter import TreeSitterLanguage

_WRITTEN = {NEWLINE_SPELLING: "\n", ERROR_SPELLING: ""}


class ProgramOf:
    """The `Program` of a language by its token rules.

    Args:
        language: The language.
    """

    skipped = frozenset((COMMENT,))

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self.version = language.version

    def lexemes(self, text: str) -> Sequence[Lexeme]:
        """All tokens of a text; nothing is refused."""
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
        """The tokens in a row with a blank between two of a line."""
        lines = " ".join(_WRITTEN.get(token, token) for token in whole).split("\n")
        return "\n".join(line.strip() for line in lines)


def _kind(leaf: Leaf, rules: TokenRules) -> str:
    """The kind of a program token that a leaf is; the lists that come first take precedence."""
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
    """The facet ``program`` of every language that has no lexer of its own."""
    return ProgramOf(language)
