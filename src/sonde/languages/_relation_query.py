"""Relations between words by `relations.scm`, the same code over every language.

The query names constructs and their parts: ``@Construct`` is the construct, ``@Construct.part`` one of its
parts. What is captured of one construct, in however many matches, belongs together; a part goes from the
first of its nodes to the last, but for one that begins with a word of the grammar, which is that word. Which
parts are related, the names of the relations say; one of a part to itself joins its first node to its second.

- ``@Construct.part.last``: as a head it is the last word of its first node;
- ``@Construct.nested``: a construct of the same kind, which has what stands behind it of the one around (an
  ``elif`` of Python's grammar, which stands beside the others).

Captures without a construct say how nodes stand in the tree, for the relation of nodes to their children:

- ``@through``: no node of its own: what stands in it stands in the node around;
- ``@bare``: as a part it is what stands in it, without the signs around and whatever is ``@before``;
- ``@apart``: nobody's child, and nobody's parent;
- ``@own``: part of its node as a word is: no child, and nothing in it is one;
- ``@outside``: as ``@own``; no construct in it counts, and its node neither begins nor ends with it;
- ``@together``: siblings that stand in a node of their own, which the grammar does not have; those of two
  matches that share a node stand in one;
- ``@other``: no construct after all, whatever else matches;
- ``@body``: has to hold something, which a grammar may not ask.

Names that begin with ``_`` are the query's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import tree_sitter

from sonde.languages._leaves import ParsedText
from sonde.languages._relation_parts import Parts, QueryParts, place_of
from sonde.languages._relation_places import NodeWords
from sonde.languages._relation_words import Word, is_layout, plain, single, with_layout, with_newlines
from sonde.languages._relations import (
    CHILDREN,
    LONE_RETURN,
    Delimiters,
    Edge,
    Related,
    Words,
    lone_returns,
    plain_words,
    relation_table,
)
from sonde.languages._treesitter import TreeSitterLanguage

_LAST = ".last"


class QueryEdges:
    """The facet ``edges`` of a language by its query.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        table = language.table("relations")
        self._layout: bool = table.get("layout", False)
        self._several = frozenset(table.get("several", ()))

    def words(self, text: str, delimiters: Delimiters) -> Words:
        """The words of a text."""
        return _columns(self._words(text, self._reading(text), delimiters))

    def relate(self, text: str, delimiters: Delimiters) -> Related:
        """The words of a text and the relations between them."""
        reading = self._reading(text)
        words = self._words(text, reading, delimiters)
        if self._layout and lone_returns(text):
            return Related(_columns(words), problem=LONE_RETURN)
        found = None if reading.root.has_error else QueryParts(self._language, reading)
        if found is None or found.empty:
            return Related(_columns(words), problem="does not parse")
        layout = [is_layout(word, comments=self._layout) for word, _, _ in words]
        places = NodeWords(reading, words, layout, found.nodes["outside"], delimiters)
        related = chain(_constructs(found, places, self._related), _children(found, places, reading))
        kept = {edge for edge in related if 0 < edge[1] < edge[2] <= edge[3]}
        return Related(_columns(words), tuple(sorted(kept)))

    @cached_property
    def _related(self) -> Mapping[str, Sequence[tuple[str, str, str]]]:
        """For each construct its relations: name, head and dependent."""
        found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for name in relation_table(self._language).relations:
            construct, _, parts = name.partition(":")
            head, _, dependent = parts.partition("->")
            found[construct].append((name, head, dependent))
        return found

    def _reading(self, text: str) -> ParsedText:
        """The tree; a piece that was cut out within its first line is read in the margin of its others."""
        reading = self._language.reading(text)
        if not self._layout or not reading.root.has_error:
            return reading
        margin = min(
            (line[: -len(line.lstrip())] for line in text.split("\n")[1:] if line.strip()),
            key=len,
            default="",
        )
        source, parsed = self._language.syntax(margin + text)
        return ParsedText(source, parsed, len(margin), len(text))

    def _words(self, text: str, reading: ParsedText, delimiters: Delimiters) -> list[Word]:
        if not self._layout:
            listed = single(self._language.leaves(text), self._several)
            return with_newlines(text, listed) if delimiters.newlines else plain(listed)
        joins = self._language.settings.tokens.layout
        return with_layout(text, self._language.leaves_of(reading, without=joins))


def _constructs(
    found: QueryParts, places: NodeWords, related: Mapping[str, Sequence[tuple[str, str, str]]]
) -> Iterator[Edge]:
    """The edges between the parts of constructs."""
    for construct, parts in found.kept():
        for name, head, dependent in related[construct]:
            heads, nodes = _part(parts, head), _part(parts, dependent)
            if head == dependent:
                nodes = nodes[1:2]
            elif nodes and not nodes[0].is_named:
                nodes = nodes[:1]
            if heads and nodes:
                is_last = head not in parts
                at = (
                    places.last(found.last_of(heads[0]))
                    if is_last
                    else places.first(found.first_of(heads[0]))
                )
                end = nodes[0] if len(nodes) == 1 else max(nodes, key=lambda node: node.end_byte)
                first, last = places.first(found.first_of(nodes[0])), places.last(found.last_of(end))
                yield Edge(name, at, first, last)


def _part(parts: Parts, name: str) -> list[tree_sitter.Node]:
    """The nodes of a part, in their order."""
    nodes = parts.get(name) or parts.get(name + _LAST) or []
    return nodes if len(nodes) < 2 else sorted(nodes, key=place_of)


Waiting = tuple[tree_sitter.Node, int]
"""A node, and the word of the node that it is a child of (-1 where it is nobody's)."""


def _children(found: QueryParts, places: NodeWords, reading: ParsedText) -> Iterator[Edge]:
    """From every named node to those directly under it that begin with another word."""
    through, apart, hidden = found.ids("through"), found.ids("apart"), found.ids("own", "outside")
    nested = found.nested()
    comments, whole, together = found.comments, found.whole, found.together
    waiting: list[Waiting] = [(child, -1) for child in reading.root.named_children]
    while waiting:
        node, above = waiting.pop()
        identity, kind = node.id, node.type
        if kind in comments or identity in hidden:
            continue
        at = above
        if identity in apart or (reading.before and not reading.inside(node)):
            at = -1
        elif identity not in through:
            at = places.first(node)
            if above >= 0:
                yield Edge(CHILDREN, above, at, places.last(node))
        if kind in whole:
            continue
        if identity not in together and not nested:
            waiting += [(child, at) for child in node.named_children]
            continue
        parents: dict[int, int] = {}
        for run in together.get(identity, []):
            begin = places.first(run[0])
            yield Edge(CHILDREN, at, begin, places.last(run[-1]))
            parents.update((member.id, begin) for member in run)
        for child in node.named_children:
            if child.id in nested:
                begin = places.first(child)
                yield Edge(CHILDREN, at, begin, places.last(node))
                waiting += [(inner, begin) for inner in child.named_children]
                at = begin
            else:
                waiting.append((child, parents.get(child.id, at)))


def _columns(words: Sequence[Word]) -> Words:
    surface, start, end = zip(*words, strict=True) if words else ((), (), ())
    return plain_words(surface, start, end)


def facet(language: TreeSitterLanguage) -> QueryEdges:
    """The facet ``edges`` of every language whose folder has the query and no rules of its own."""
    return QueryEdges(language)
