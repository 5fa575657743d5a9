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

`QueryParts` holds the constructs with their parts. `NodeWordFinder` finds the words of a node: it skips the
brackets around them and knows which words may end a dependent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import tree_sitter

from sonde.languages.engine.language import Match
from sonde.languages.engine.metrics import NodeCover, select_outermost
from sonde.languages.engine.relations import (
    CHILD_RELATION,
    CLOSING_BRACKETS,
    LONE_RETURN,
    Edge,
    RelationGraph,
    RelationOptions,
    Word,
    Words,
    add_layout,
    add_newlines,
    build_words,
    has_lone_returns,
    is_layout,
    split_characters,
    to_words,
    trim_brackets,
)
from sonde.languages.engine.tokens import ParsedText
from sonde.languages.engine.treesitter import TreeSitterLanguage

NODE_CAPTURES = ("through", "bare", "apart", "own", "outside", "before", "other", "body")


NESTED_PART = "nested"


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

    def __init__(self, language: TreeSitterLanguage, parsed_text: ParsedText) -> None:
        tokens = language.settings.tokens
        self.comments = tokens.comments | tokens.layout
        self.whole = tokens.whole
        self.nodes: dict[str, list[tree_sitter.Node]] = {name: [] for name in NODE_CAPTURES}
        self.constructs: dict[tuple[str, int], defaultdict[str, list[tree_sitter.Node]]] = {}
        self._node_by_id: dict[int, tree_sitter.Node] = {}
        self._runs_by_parent: defaultdict[int, list[dict[int, tree_sitter.Node]]] = defaultdict(list)
        self._run_by_node: dict[int, dict[int, tree_sitter.Node]] = {}
        for match in language.grammar.matches("relations", parsed_text.root):
            self._add_match(match)
        self.together = {
            parent_id: [sorted(run.values(), key=get_byte_range) for run in runs]
            for parent_id, runs in self._runs_by_parent.items()
        }
        for key in [key for key, parts in self.constructs.items() if NESTED_PART in parts]:
            self._split_constructs(key)
        self._bare_ids = self.ids("bare")
        self._excluded_ids = self.ids("own", "outside", "before")

    def _add_match(self, match: Match) -> None:
        constructs: dict[str, defaultdict[str, list[tree_sitter.Node]]] = {}
        for name, nodes in match.items():
            if name in self.nodes:
                self.nodes[name] += nodes
            elif name == "together":
                self._add_run(nodes)
            elif "." not in name and name[0] != "_":
                key = (name, nodes[0].id)
                self._node_by_id[nodes[0].id] = nodes[0]
                constructs[name] = self.constructs.setdefault(key, defaultdict(list))
        for name, nodes in match.items():
            construct, _, part = name.partition(".")
            if part:
                constructs[construct][part] += nodes

    def _add_run(self, nodes: list[tree_sitter.Node]) -> None:
        parent = nodes[0].parent
        assert parent is not None
        run = next((self._run_by_node[node.id] for node in nodes if node.id in self._run_by_node), None)
        if run is None:
            run = {}
            self._runs_by_parent[parent.id].append(run)
        run.update((node.id, node) for node in nodes)
        self._run_by_node.update((node.id, run) for node in nodes)

    def _split_constructs(self, key: tuple[str, int]) -> None:
        """Move to each nested construct the nodes after it of the outer one."""
        parts = self.constructs[key]
        sorted_parts = {
            name: sorted(nodes, key=get_byte_range) for name, nodes in parts.items() if name != NESTED_PART
        }
        for inner in sorted(parts[NESTED_PART], key=get_byte_range):
            inner_parts = self.constructs.setdefault((key[0], inner.id), defaultdict(list))
            for name, nodes in sorted_parts.items():
                index = bisect_left(nodes, inner.end_byte, key=lambda node: node.start_byte)
                if index < len(nodes):
                    # Only the first and the last node of a part matter.
                    inner_parts[name] += [nodes[index], nodes[-1]]

    @property
    def has_empty_body(self) -> bool:
        """Return whether a required body contains nothing but comments."""
        return any(
            all(child.type in self.comments for child in node.named_children) for node in self.nodes["body"]
        )

    def ids(self, *names: str) -> frozenset[int]:
        """Return the ids of the nodes of some captures."""
        return frozenset(node.id for name in names for node in self.nodes[name])

    def iterate_constructs(self) -> Iterator[tuple[str, Parts]]:
        """Yield the valid constructs with their parts."""
        other_ids = self.ids("other")
        outside_cover = NodeCover(select_outermost(self.nodes["outside"]))
        for (construct, node_id), parts in self.constructs.items():
            if node_id not in other_ids and not outside_cover.holds(self._node_by_id[node_id]):
                yield construct, parts

    def nested_ids(self) -> frozenset[int]:
        """Return the ids of nested constructs."""
        return frozenset(node.id for parts in self.constructs.values() for node in parts.get(NESTED_PART, ()))

    def unwrap_first(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """Return the first node of a part, inside ``@bare`` nodes."""
        return self._unwrap(node, 0) if self._bare_ids else node

    def unwrap_last(self, node: tree_sitter.Node) -> tree_sitter.Node:
        """Return the last node of a part, inside ``@bare`` nodes."""
        return self._unwrap(node, -1) if self._bare_ids else node

    def _unwrap(self, node: tree_sitter.Node, index: int) -> tree_sitter.Node:
        while node.id in self._bare_ids:
            children = [
                child
                for child in node.named_children
                if child.type not in self.comments and child.id not in self._excluded_ids
            ]
            if not children:
                return node
            node = children[index]
        return node


def get_byte_range(node: tree_sitter.Node) -> tuple[int, int]:
    """Return the byte span of a node, a key to sort by."""
    return node.byte_range


class NodeWordFinder:
    """Finds the first and the last word of nodes.

    Args:
        parsed_text: The parsed text.
        words: Its words.
        layout: Whether each word is layout.
        outside_nodes: Nodes with which their parents neither begin nor end.
        options: The words that may end a dependent.
    """

    def __init__(
        self,
        parsed_text: ParsedText,
        words: Sequence[Word],
        layout: Sequence[bool],
        outside_nodes: Sequence[tree_sitter.Node],
        options: RelationOptions,
    ) -> None:
        self._source = parsed_text.source
        self._words = words
        self._layout = layout
        self._newlines = options.newlines
        self._starts = [start + parsed_text.before for _, start, _ in words]
        closing_brackets = CLOSING_BRACKETS if options.semicolons else CLOSING_BRACKETS | {";"}
        code_indices = [index for index, is_layout_word in enumerate(layout) if not is_layout_word]
        self._first_from, self._last_to = trim_brackets(
            [word.surface for word in words], code_indices, closing_brackets
        )
        self._trimmed_starts: dict[int, int] = {}
        self._trimmed_ends: dict[int, int] = {}
        # Nested nodes begin and end at the same bytes.
        self._firsts: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        for node in sorted(outside_nodes, key=get_byte_range):
            self._trim_ancestors(node, node.next_sibling, "start_byte", self._trimmed_starts)
        for node in sorted(outside_nodes, key=get_byte_range, reverse=True):
            self._trim_ancestors(node, node.prev_sibling, "end_byte", self._trimmed_ends)

    def _trim_ancestors(
        self,
        node: tree_sitter.Node,
        sibling: tree_sitter.Node | None,
        edge: str,
        bytes_by_node: dict[int, int],
    ) -> None:
        """Let the ancestors that begin (or end) with a node begin (or end) with its sibling instead."""
        parent = node.parent
        byte = getattr(node, edge)
        while (
            sibling is not None
            and parent is not None
            and bytes_by_node.get(parent.id, getattr(parent, edge)) == byte
        ):
            bytes_by_node[parent.id] = getattr(sibling, edge)
            parent = parent.parent

    def first(self, node: tree_sitter.Node) -> int:
        """Return the first word of a node after non-empty opening brackets; -1 without words."""
        byte = self._trimmed_starts.get(node.id, node.start_byte) if self._trimmed_starts else node.start_byte
        word = self._firsts.get(byte)
        if word is None:
            index = bisect_left(self._starts, self._source.to_character(byte))
            while index < len(self._words) - 1 and self._layout[index]:
                index += 1
            word = self._firsts[byte] = self._first_from[index] if index < len(self._first_from) else -1
        return word

    def last(self, node: tree_sitter.Node) -> int:
        """Return the last word of a node before closing brackets; -1 without words."""
        byte = self._trimmed_ends.get(node.id, node.end_byte) if self._trimmed_ends else node.end_byte
        word = self._lasts.get(byte)
        if word is None:
            word = self._lasts[byte] = self._find_last(
                bisect_left(self._starts, self._source.to_character(byte)) - 1
            )
        return word

    def _find_last(self, index: int) -> int:
        """Return the last word of a node whose words end at ``index``."""
        if index < 0:
            return -1
        while index and self._layout[index]:
            index -= 1
        if self._newlines and index + 1 < len(self._words) and self._words[index + 1].surface == "\n":
            return index + 1
        return self._last_to[index]


_LAST_SUFFIX = ".last"


class QueryEdges:
    """The facet ``edges`` of a language by its query.

    Args:
        language: The language.
    """

    quirks: Mapping[str, str] = {}

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        table = language.table("relations")
        self._layout: bool = table.get("layout", False)
        self._split_signs = frozenset(table.get("several", ()))

    def words(self, text: str, options: RelationOptions) -> Words:
        """Return the words of a text."""
        return build_words(self._list_words(text, self._parse_text(text), options))

    def relate(self, text: str, options: RelationOptions) -> RelationGraph:
        """Return the words of a text and the relations between them."""
        parsed_text = self._parse_text(text)
        words = self._list_words(text, parsed_text, options)
        if self._layout and has_lone_returns(text):
            return RelationGraph(build_words(words), problem=LONE_RETURN)
        query_parts = None if parsed_text.root.has_error else QueryParts(self._language, parsed_text)
        if query_parts is None or query_parts.has_empty_body:
            return RelationGraph(build_words(words), problem="does not parse")
        layout = [is_layout(word, comments=self._layout) for word, _, _ in words]
        word_finder = NodeWordFinder(parsed_text, words, layout, query_parts.nodes["outside"], options)
        edges = chain(
            _find_construct_edges(query_parts, word_finder, self._relations_by_construct),
            _find_child_edges(query_parts, word_finder, parsed_text),
        )
        valid_edges = {edge for edge in edges if 0 < edge[1] < edge[2] <= edge[3]}
        return RelationGraph(build_words(words), tuple(sorted(valid_edges)))

    @cached_property
    def _relations_by_construct(self) -> Mapping[str, Sequence[tuple[str, str, str]]]:
        """Map each construct to its relations: name, head and dependent."""
        relations: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for name in self._language.table("relations")["relations"]:
            construct, _, parts = name.partition(":")
            head, _, dependent = parts.partition("->")
            relations[construct].append((name, head, dependent))
        return relations

    def _parse_text(self, text: str) -> ParsedText:
        """Parse a text; one that was cut out within its first line gets the margin of its other lines."""
        parsed_text = self._language.reading(text)
        if not self._layout or not parsed_text.root.has_error:
            return parsed_text
        margin = min(
            (line[: -len(line.lstrip())] for line in text.split("\n")[1:] if line.strip()),
            key=len,
            default="",
        )
        return ParsedText(*self._language.syntax(margin + text), before=len(margin), length=len(text))

    def _list_words(self, text: str, parsed_text: ParsedText, options: RelationOptions) -> list[Word]:
        if not self._layout:
            words = to_words(split_characters(self._language.leaves(text), self._split_signs))
            return add_newlines(text, words) if options.newlines else words
        layout_kinds = self._language.settings.tokens.layout
        return add_layout(text, self._language.extract_leaves(parsed_text, exclude=layout_kinds))


def _find_construct_edges(
    query_parts: QueryParts,
    word_finder: NodeWordFinder,
    relations: Mapping[str, Sequence[tuple[str, str, str]]],
) -> Iterator[Edge]:
    """Yield the edges between the parts of constructs."""
    for construct, parts in query_parts.iterate_constructs():
        for name, head, dependent in relations[construct]:
            heads, nodes = _get_part(parts, head), _get_part(parts, dependent)
            if head == dependent:
                nodes = nodes[1:2]
            elif nodes and not nodes[0].is_named:
                nodes = nodes[:1]
            if heads and nodes:
                is_last = head not in parts
                head_word = (
                    word_finder.last(query_parts.unwrap_last(heads[0]))
                    if is_last
                    else word_finder.first(query_parts.unwrap_first(heads[0]))
                )
                end = nodes[0] if len(nodes) == 1 else max(nodes, key=lambda node: node.end_byte)
                first, last = (
                    word_finder.first(query_parts.unwrap_first(nodes[0])),
                    word_finder.last(query_parts.unwrap_last(end)),
                )
                yield Edge(name, head_word, first, last)


def _get_part(parts: Parts, name: str) -> list[tree_sitter.Node]:
    """Return the nodes of a part in order."""
    nodes = parts.get(name) or parts.get(name + _LAST_SUFFIX) or []
    return nodes if len(nodes) < 2 else sorted(nodes, key=get_byte_range)


PendingNode = tuple[tree_sitter.Node, int]
"""A node to visit, and the first word of its parent (-1 without a parent)."""


def _find_child_edges(
    query_parts: QueryParts, word_finder: NodeWordFinder, parsed_text: ParsedText
) -> Iterator[Edge]:
    """Yield the edges from every named node to its named children."""
    through_ids, apart_ids, hidden_ids = (
        query_parts.ids("through"),
        query_parts.ids("apart"),
        query_parts.ids("own", "outside"),
    )
    nested_ids = query_parts.nested_ids()
    comments, whole_kinds, runs_by_parent = query_parts.comments, query_parts.whole, query_parts.together
    stack: list[PendingNode] = [(child, -1) for child in parsed_text.root.named_children]
    while stack:
        node, parent_word = stack.pop()
        node_id, kind = node.id, node.type
        if kind in comments or node_id in hidden_ids:
            continue
        word = parent_word
        if node_id in apart_ids or (parsed_text.before and not parsed_text.contains(node)):
            word = -1
        elif node_id not in through_ids:
            word = word_finder.first(node)
            if parent_word >= 0:
                yield Edge(CHILD_RELATION, parent_word, word, word_finder.last(node))
        if kind in whole_kinds:
            continue
        if node_id not in runs_by_parent and not nested_ids:
            stack += [(child, word) for child in node.named_children]
            continue
        parents: dict[int, int] = {}
        for run in runs_by_parent.get(node_id, []):
            begin = word_finder.first(run[0])
            yield Edge(CHILD_RELATION, word, begin, word_finder.last(run[-1]))
            parents.update((member.id, begin) for member in run)
        for child in node.named_children:
            if child.id in nested_ids:
                begin = word_finder.first(child)
                yield Edge(CHILD_RELATION, word, begin, word_finder.last(node))
                stack += [(inner, begin) for inner in child.named_children]
                word = begin
            else:
                stack.append((child, parents.get(child.id, word)))


facet = QueryEdges
