"""From characters to words: which words an edge of the syntax tree joins.

The authors find a word by lexing the text again up to a position, and a span by lexing it alone, and count
how many words agree with those of the whole text. That is looked up here, and done as they did only where
a position is in the middle of a word.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from sonde.languages._relations import Edge
from sonde.papers._javalang import LexerError, Word, lex
from sonde.papers.codesyntax.java.rules import Span

_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")
# What the authors write after the text before a position, so that no word of it is taken for whole.
_SENTINEL = "_EndOfLineSymbol_"


def with_newlines(text: str, words: list[Word]) -> list[Word]:
    r"""The words with one ``\n`` for each line that ends between two of them, those in comments included."""
    found = words[:1]
    for before, word in pairwise(words):
        at = text.find("\n", before.end, word.start)
        while at >= 0:
            found.append(Word("\n", at, at + 1))
            at = text.find("\n", at + 1, word.start)
        found.append(word)
    return found


@dataclass(slots=True)
class WordFinder:
    """Finds the words of spans.

    Attributes:
        text: The text.
        words: Its words.
        newlines: Whether newlines are words, and end a dependent that stands directly before one.
        closing: Words that are trimmed from the end of a dependent.
    """

    text: str
    words: list[Word]
    newlines: bool
    closing: frozenset[str]
    _starts: list[int] = field(init=False)
    _ends: list[int] = field(init=False)
    _behind: list[int] = field(init=False)
    _before_closing: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [word.start for word in self.words]
        self._ends = [word.end for word in self.words]
        # Nested brackets begin and end together: each run of them is gone through once.
        count = len(self.words)
        self._behind, self._before_closing = list(range(count + 1)), list(range(count))
        for at in range(count - 1, -1, -1):
            if self._opens(at):
                self._behind[at] = self._behind[at + 1]
        for at in range(1, count):
            if self.words[at].value in self.closing:
                self._before_closing[at] = self._before_closing[at - 1]

    def find(self, span: Span) -> tuple[int, int, int] | None:
        """The head word, and the first and the last word of the dependent; None where there is no edge."""
        try:
            head_at, first_at = self._before(span.head), self._before(span.start)
            beyond = first_at + self._inside(first_at, span.start, span.end)
        except LexerError:
            return None
        head, first = self._first(head_at), self._first(first_at)
        if head is None or first is None or not 0 < head < first:
            return None
        last = self._last(beyond, first)
        return None if last is None or last < first else (head, first, last)

    def edges(self, found: Iterable[Span]) -> tuple[Edge, ...]:
        """The edges of spans, without those that join no words."""
        placed = ((span.relation, self.find(span)) for span in found)
        return tuple(Edge(relation, *places) for relation, places in placed if places)

    def _before(self, position: int) -> int:
        """How many words stand before a position."""
        count = bisect_right(self._ends, position)
        if count < len(self.words) and self._starts[count] < position:
            return self._agreeing(0, self.text[:position] + _SENTINEL)
        return count

    def _inside(self, first: int, start: int, end: int) -> int:
        """How many words, from the first one on, a span holds."""
        if first >= len(self.words):
            return 0
        if self._starts[first] == start and self.words[first].value != "\n":
            beyond = bisect_right(self._ends, end)
            if beyond > first and self._ends[beyond - 1] == end and self.words[beyond - 1].value != "\n":
                return beyond - first
        return self._agreeing(first, self.text[start:end])

    def _agreeing(self, first: int, text: str) -> int:
        """How many words of another text are those from the first one on."""
        others = lex(text)
        if self.newlines:
            others = with_newlines(text, others)
        for count, other in enumerate(others):
            if first + count == len(self.words) or self.words[first + count].value != other.value:
                return count
        return len(others)

    def _first(self, at: int) -> int | None:
        """The word that a span begins with: the first behind its opening brackets."""
        found = self._behind[min(at, len(self.words))]
        if found > at and (found == len(self.words) or self.words[found].value in self.closing):
            return at
        return found if found < len(self.words) else None

    def _opens(self, at: int) -> bool:
        value = self.words[at].value
        return value in _OPENING or value == "\n"

    def _last(self, beyond: int, first: int) -> int | None:
        """The word that a span ends with: the last before its closing brackets."""
        if self.newlines and beyond < len(self.words) and self.words[beyond].value == "\n":
            return beyond
        return self._before_closing[beyond - 1] if beyond else -1


def closing(semicolons: bool) -> frozenset[str]:
    """What is trimmed from the end of a dependent: closing brackets, and semicolons that may not end one."""
    return _CLOSING if semicolons else _CLOSING | {";"}
