"""Relations between words by `relations.scm` alone, for a language whose grammar's tree is all there is.

A word is a token of the language (`_leaves.leaves`). The query names constructs and their parts as Python's
does: ``@Construct`` is the construct, ``@Construct.part`` one of its parts, a part from the first of its
nodes to the last; ``@Construct.part.last`` one whose last word is the head. Which parts are related, the
names of the relations say. ``@through`` is a node that is none of its own: what stands in it stands in the
node around.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

import tree_sitter

from sonde.languages._leaves import Leaf, ParsedText
from sonde.languages._relations import (
    CHILDREN,
    Delimiters,
    Edge,
    Related,
    Words,
    plain_words,
    relation_table,
)
from sonde.languages._treesitter import TreeSitterLanguage

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_LAST = ".last"


class QueryEdges:
    """The facet ``edges`` of a language by its query.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._related: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for name in relation_table(language).relations:
            construct, _, parts = name.partition(":")
            head, _, dependent = parts.partition("->")
            self._related[construct].append((name, head, dependent))

    def words(self, text: str, delimiters: Delimiters) -> Words:
        """The tokens of a text."""
        return _columns(self._language.leaves(text))

    def relate(self, text: str, delimiters: Delimiters) -> Related:
        """The tokens of a text and the relations between them."""
        listed, reading = self._language.leaves(text), self._language.reading(text)
        if reading.root.has_error:
            return Related(_columns(listed), problem="does not parse")
        places = _Places(reading, listed, semicolons=delimiters.semicolons)
        found = {*self._constructs(reading, places), *self._children(reading, places)}
        return Related(_columns(listed), tuple(sorted(edge for edge in found if 0 < edge.head < edge.first)))

    def _constructs(self, reading: ParsedText, places: _Places) -> Iterator[Edge]:
        merged: defaultdict[tuple[str, int], defaultdict[str, list[tree_sitter.Node]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for match in self._language.grammar.matches("relations", reading.root):
            for construct in (name for name in match if "." not in name and name != "through"):
                parts = merged[construct, match[construct][0].id]
                for name, nodes in match.items():
                    if name.startswith(f"{construct}."):
                        parts[name.removeprefix(f"{construct}.")] += nodes
        for (construct, _), parts in merged.items():
            for name, head, dependent in self._related[construct]:
                yield from _edge(name, parts, head, dependent, places)

    def _children(self, reading: ParsedText, places: _Places) -> Iterator[Edge]:
        """From every named node to those directly under it that begin with another word."""
        captured = dict(self._language.grammar.captures("relations", reading.root))
        through = {node.id for node in captured.get("through", ())}
        comments = self._language.settings.tokens.comments
        whole = self._language.settings.tokens.whole
        waiting: list[tuple[tree_sitter.Node, int]] = [(reading.root, -1)]
        while waiting:
            node, above = waiting.pop()
            own = above
            if reading.inside(node) and node.id not in through and node.parent is not None:
                span = places.span([node])
                if span is not None:
                    own = span[0]
                    if 0 <= above < own:
                        yield Edge(CHILDREN, above, *span)
            if node.type not in whole:
                waiting += [(child, own) for child in node.named_children if child.type not in comments]


class _Places:
    """Finds the words of nodes.

    Args:
        reading: The parsed text.
        listed: Its words.
        semicolons: Whether a dependent may end in ``;``.
    """

    def __init__(self, reading: ParsedText, listed: Sequence[Leaf], *, semicolons: bool) -> None:
        self._reading = reading
        self._listed = listed
        self._starts = [leaf.start for leaf in listed]
        self._trimmed = _CLOSING if semicolons else _CLOSING | {";"}

    def span(self, nodes: Sequence[tree_sitter.Node]) -> tuple[int, int] | None:
        """First and last word of nodes, brackets around them left out unless they hold nothing."""
        spans = [self._reading.span(node) for node in nodes]
        first = bisect_left(self._starts, min(start for start, _ in spans))
        last = bisect_left(self._starts, max(end for _, end in spans)) - 1
        if first > last:
            return None
        begin, end = first, last
        while begin < end and self._listed[begin].text in _OPENING:
            begin += 1
        while end > begin and self._listed[end].text in self._trimmed:
            end -= 1
        return (first, last) if self._listed[begin].text in _CLOSING else (begin, end)


def _edge(
    name: str,
    parts: defaultdict[str, list[tree_sitter.Node]],
    head: str,
    dependent: str,
    places: _Places,
) -> Iterator[Edge]:
    heads = places.span(parts[head + _LAST] or parts[head]) if parts[head + _LAST] or parts[head] else None
    found = places.span(parts[dependent] or parts[dependent + _LAST]) if parts[dependent] else None
    if heads is not None and found is not None:
        yield Edge(name, heads[1] if parts[head + _LAST] else heads[0], *found)


def _columns(listed: Sequence[Leaf]) -> Words:
    return plain_words(
        [leaf.text for leaf in listed], [leaf.start for leaf in listed], [leaf.end for leaf in listed]
    )


def facet(language: TreeSitterLanguage) -> QueryEdges:
    """The facet ``edges`` of every language whose folder has the query and no rules of its own."""
    return QueryEdges(language)
