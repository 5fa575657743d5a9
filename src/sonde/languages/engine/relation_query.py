"""Relations between words by `relations.scm`, the same code for every language.

The query names constructs and their parts: ``@Construct`` is the construct, ``@Construct.part`` one of its
parts. All captures of one construct, from however many matches, are combined; a part spans from the first of
its nodes to the last, except that a part whose first node is an anonymous token is that token. The names of
the relations say which parts are related; a relation of a part to itself joins its first node to its second.

- ``@Construct.part.last``: as a head it is the last word of its first node;
- ``@Construct.nested``: a construct of the same kind that takes the following nodes of the outer construct
  (an ``elif`` of Python's grammar, which is a sibling of the others).

Captures without a construct describe nodes of the tree, for the relation of nodes to their children:

- ``@through``: no node of its own: its children belong to its parent;
- ``@bare``: as a part it is its content, without the enclosing signs and whatever is ``@before``;
- ``@apart``: has neither a parent nor children;
- ``@own``: part of its node as a word is: no child, and nothing in it is one;
- ``@outside``: as ``@own``; constructs in it do not count, and its node neither begins nor ends with it;
- ``@together``: siblings that share a parent node which the grammar does not have; those of two matches that
  share a node share the parent;
- ``@other``: no construct after all, whatever else matches;
- ``@body``: must not be empty, which a grammar may not require.

Names that begin with ``_`` are for predicates of the query only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import tree_sitter

from sonde.languages.engine.grammar import Match
from sonde.languages.engine.metrics import Cover, outermost
from sonde.languages.engine.relations import (
    CHILDREN,
    CLOSING,
    LONE_RETURN,
    OPENING,
    Delimiters,
    Edge,
    Related,
    Word,
    Words,
    is_layout,
    lone_returns,
    plain,
    plain_words,
    relation_table,
    single,
    with_layout,
    with_newlines,
)
from sonde.languages.engine.tokens import ParsedText
from sonde.languages.engine.treesitter import TreeSitterLanguage

NODES = ("through", "bare", "apart", "own", "outside", "before", "other", "body")


NESTED = "nested"


Parts = Mapping[str, list[tree_sitter.Node]]
"""The nodes of each part of a construct."""


class QueryParts:
    """The captures of the query in a tree.

    Attributes:
        nodes: The nodes of each of `NODE_CAPTURES`.
        constructs: The parts of each construct, by its name and its node's id.
        together: Runs of siblings captured as ``@together``, by the id of their parent.
        comments: Kinds of nodes that are not code.
        whole: Kinds of nodes that are one word, with everything in them.
    """

    def __init__(self, language: TreeSitterLanguage, reading: ParsedText) -> None:
        tokens = language.settings.tokens
        self.comments = tokens.comments | tokens.layout
        self.whole = tokens.whole
        self.nodes: dict[str, list[tree_sitter.Node]] = {name: [] for name in NODES}
        self.constructs: dict[tuple[str, int], defaultdict[str, list[tree_sitter.Node]]] = {}
        self._at: dict[int, tree_sitter.Node] = {}
        self._joined: defaultdict[int, list[dict[int, tree_sitter.Node]]] = defaultdict(list)
        self._runs: dict[int, dict[int, tree_sitter.Node]] = {}
        for match in language.grammar.matches("relations", reading.root):
            self._take(match)
        self.together = {
            around: [sorted(run.values(), key=place_of) for run in runs]
            for around, runs in self._joined.items()
        }
        for key in [key for key, parts in self.constructs.items() if NESTED in parts]:
            self._nest(key)

    def _take(self, match: Match) -> None:
        constructs: dict[str, defaultdict[str, list[tree_sitter.Node]]] = {}
        for name, captured in match.items():
            if name in self.nodes:
                self.nodes[name] += captured
            elif name == "together":
                self._join(captured)
            elif "." not in name and name[0] != "_":
                key = (name, captured[0].id)
                self._at[captured[0].id] = captured[0]
                constructs[name] = self.constructs.setdefault(key, defaultdict(list))
        for name, captured in match.items():
            construct, _, part = name.partition(".")
            if part:
                constructs[construct][part] += captured

    def _join(self, captured: list[tree_sitter.Node]) -> None:
        around = captured[0].parent
        assert around is not None
        run = next((self._runs[node.id] for node in captured if node.id in self._runs), None)
        if run is None:
            run = {}
            self._joined[around.id].append(run)
        run.update((node.id, node) for node in captured)
        self._runs.update((node.id, run) for node in captured)

    def _nest(self, key: tuple[str, int]) -> None:
        """Move to each nested construct the nodes after it of the outer one."""
        parts = self.constructs[key]
        ordered = {name: sorted(nodes, key=place_of) for name, nodes in parts.items() if name != NESTED}
        for inner in sorted(parts[NESTED], key=place_of):
            own = self.constructs.setdefault((key[0], inner.id), defaultdict(list))
            for name, nodes in ordered.items():
                behind = bisect_left(nodes, inner.end_byte, key=lambda node: node.start_byte)
                if behind < len(nodes):
                    # Only the first and the last node of a part matter.
                    own[name] += [nodes[behind], nodes[-1]]

    @property
    def empty(self) -> bool:
        """Return whether a required body contains nothing but comments."""
        return any(
            all(child.type in self.comments for child in node.named_children) for node in self.nodes["body"]
        )

    def ids(self, *names: str) -> frozenset[int]:
        """Return the ids of the nodes of some captures."""
        return frozenset(node.id for name in names for node in self.nodes[name])

    def kept(self) -> Iterator[tuple[str, Parts]]:
        """Yield the valid constructs with their parts."""
        other = self.ids("other")
        outside = Cover(outermost(self.nodes["outside"]))
        for (construct, identity), parts in self.constructs.items():
            if identity not in other and not outside.holds(self._at[identity]):
                yield construct, parts

    def nested(self) -> frozenset[int]:
        """Return the ids of nested constructs."""
        return frozenset(node.id for parts in self.constructs.values() for node in parts.get(NESTED, ()))

    def first_of(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """Return the first node of a part, inside ``@bare`` nodes."""
        return self._inside(node, 0) if self._bare else node

    def last_of(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """Return the last node of a part, inside ``@bare`` nodes."""
        return self._inside(node, -1) if self._bare else node

    def _inside(self, node: tree_sitter.Node, place: int) -> tree_sitter.Node:
        while node.id in self._bare:
            held = [child for child in node.named_children if not self._is_no_part(child)]
            if not held:
                return node
            node = held[place]
        return node

    def _is_no_part(self, node: tree_sitter.Node) -> bool:
        return node.type in self.comments or node.id in self._beside

    @cached_property
    def _bare(self) -> frozenset[int]:
        return self.ids("bare")

    @cached_property
    def _beside(self) -> frozenset[int]:
        return self.ids("own", "outside", "before")


def place_of(node: tree_sitter.Node) -> tuple[int, int]:
    """Return the byte span of a node, a key to sort by."""
    return node.byte_range


class NodeWords:
    """Finds the first and the last word of nodes.

    Args:
        parsed_text: The parsed text.
        words: Its words.
        layout: Whether each word is layout.
        outside_nodes: Nodes with which their parents neither begin nor end.
        delimiters: The words that may end a dependent.
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
        # Nested nodes begin and end at the same bytes.
        self._firsts: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        for node in sorted(outside, key=place_of):
            self._cut(node, node.next_sibling, "start_byte", self._begins)
        for node in sorted(outside, key=place_of, reverse=True):
            self._cut(node, node.prev_sibling, "end_byte", self._ends)

    def _cut(
        self, node: tree_sitter.Node, beside: tree_sitter.Node | None, edge: str, cut: dict[int, int]
    ) -> None:
        """Let the ancestors that begin (or end) with a node begin (or end) with its sibling instead."""
        above = node.parent
        here = getattr(node, edge)
        while beside is not None and above is not None and cut.get(above.id, getattr(above, edge)) == here:
            cut[above.id] = getattr(beside, edge)
            above = above.parent

    def first(self, node: tree_sitter.Node) -> int:
        """Return the first word of a node after non-empty opening brackets; -1 without words."""
        byte = self._begins.get(node.id, node.start_byte) if self._begins else node.start_byte
        found = self._firsts.get(byte)
        if found is None:
            place = bisect_left(self._starts, self._source.at(byte))
            found = self._firsts[byte] = self._behind[place] if place < len(self._behind) else -1
        return found

    def last(self, node: tree_sitter.Node) -> int:
        """Return the last word of a node before closing brackets; -1 without words."""
        byte = self._ends.get(node.id, node.end_byte) if self._ends else node.end_byte
        found = self._lasts.get(byte)
        if found is None:
            found = self._lasts[byte] = self._last(bisect_left(self._starts, self._source.at(byte)) - 1)
        return found

    def _last(self, place: int) -> int:
        """Return the last word of a node whose words end at ``index``."""
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
    """Return for each word the first word of nodes that begin there, and the last of those that end there.

    Nested brackets begin and end together: each run of them is passed once.
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
        """Return the words of a text."""
        return _columns(self._words(text, self._reading(text), delimiters))

    def relate(self, text: str, delimiters: Delimiters) -> Related:
        """Return the words of a text and the relations between them."""
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
        """Map each construct to its relations: name, head and dependent."""
        found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for name in relation_table(self._language).relations:
            construct, _, parts = name.partition(":")
            head, _, dependent = parts.partition("->")
            found[construct].append((name, head, dependent))
        return found

    def _reading(self, text: str) -> ParsedText:
        """Parse a text; one that was cut out within its first line gets the margin of its other lines."""
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
    """Yield the edges between the parts of constructs."""
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
    """Return the nodes of a part in order."""
    nodes = parts.get(name) or parts.get(name + _LAST) or []
    return nodes if len(nodes) < 2 else sorted(nodes, key=place_of)


Waiting = tuple[tree_sitter.Node, int]
"""A node to visit, and the first word of its parent (-1 without a parent)."""


def _children(found: QueryParts, places: NodeWords, reading: ParsedText) -> Iterator[Edge]:
    """Yield the edges from every named node to its named children."""
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
    """Return the facet ``edges`` of a language whose folder has the query and no rules of its own."""
    return QueryEdges(language)
