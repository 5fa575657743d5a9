"""The words of nodes: the brackets around them, and what may end a dependent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import tree_sitter

from sonde.languages._leaves import ParsedText
from sonde.languages._relation_parts import place_of
from sonde.languages._relation_words import CLOSING, OPENING, Word
from sonde.languages._relations import Delimiters


class NodeWords:
    """Finds the words of nodes.

    Args:
        reading: The parsed text.
        words: Its words.
        layout: Which of them are no code.
        outside: Nodes with which the nodes around them neither begin nor end.
        delimiters: What may end a dependent.
    """

    def __init__(
        self,
        reading: ParsedText,
        words: Sequence[Word],
        layout: Sequence[bool],
        outside: Sequence[tree_sitter.Node],
        delimiters: Delimiters,
    ) -> None:
        self._source = reading.source
        self._words = words
        self._layout = layout
        self._newlines = delimiters.newlines
        self._starts = [start + reading.before for _, start, _ in words]
        closing = CLOSING if delimiters.semicolons else CLOSING | {";"}
        self._behind, self._before = _brackets([word for word, _, _ in words], layout, closing)
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        # Nodes within each other begin and end together.
        self._firsts: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        for node in sorted(outside, key=place_of):
            self._cut(node, node.next_sibling, "start_byte", self._begins)
        for node in sorted(outside, key=place_of, reverse=True):
            self._cut(node, node.prev_sibling, "end_byte", self._ends)

    def _cut(
        self, node: tree_sitter.Node, beside: tree_sitter.Node | None, edge: str, cut: dict[int, int]
    ) -> None:
        """Let the nodes that begin (or end) with a node begin (or end) with its sibling."""
        above = node.parent
        here = getattr(node, edge)
        while beside is not None and above is not None and cut.get(above.id, getattr(above, edge)) == here:
            cut[above.id] = getattr(beside, edge)
            above = above.parent

    def first(self, node: tree_sitter.Node) -> int:
        """The first word of a node, opening brackets left out unless they hold nothing; -1 without words."""
        byte = self._begins.get(node.id, node.start_byte) if self._begins else node.start_byte
        found = self._firsts.get(byte)
        if found is None:
            place = bisect_left(self._starts, self._source.at(byte))
            found = self._firsts[byte] = self._behind[place] if place < len(self._behind) else -1
        return found

    def last(self, node: tree_sitter.Node) -> int:
        """The last word of a node, closing brackets left out; -1 without words."""
        byte = self._ends.get(node.id, node.end_byte) if self._ends else node.end_byte
        found = self._lasts.get(byte)
        if found is None:
            found = self._lasts[byte] = self._last(bisect_left(self._starts, self._source.at(byte)) - 1)
        return found

    def _last(self, place: int) -> int:
        """The last word of a node whose words end at a place."""
        if place < 0:
            return -1
        while place and self._layout[place]:
            place -= 1
        if self._newlines and place + 1 < len(self._words) and self._words[place + 1][0] == "\n":
            return place + 1
        return self._before[place]


def _brackets(
    words: Sequence[str], layout: Sequence[bool], closing: frozenset[str]
) -> tuple[list[int], list[int]]:
    """For each word the first of a node that begins there, and the last of one that ends there.

    Nested brackets begin and end together: each run of them is gone through once.
    """
    count = len(words)
    behind, before = list(range(count)), list(range(count))
    code = count
    for place in range(count - 1, -1, -1):
        if layout[place]:
            behind[place] = behind[code] if code < count else place
            continue
        if words[place] in OPENING and code < count and words[code] not in CLOSING:
            behind[place] = behind[code]
        code = place
    code = 0
    for place, word in enumerate(words):
        if not layout[place]:
            before[place] = before[code] if word in closing else place
            code = place
    return behind, before
