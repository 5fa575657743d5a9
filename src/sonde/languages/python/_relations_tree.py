"""Relations by `relations.scm`: which words they join, without the quirks of the published labeller.

The shape of the tree is that of Python's own `ast`, as the relation ``children`` is about its nodes: what
they are made of here is written down in the tables below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tree_sitter

from sonde.languages._grammar import Match
from sonde.languages._relations import CHILDREN, Edge
from sonde.languages._text import EncodedText
from sonde.languages.python._relations_words import Brackets, is_layout
from sonde.languages.python._scan import Scan

# The two values of a boolean operation are told apart by the query alone.
_PARTS = {("BoolOp", "value", "value"): ("left", "right")}
_HEAD_IS_LAST_WORD = frozenset({("Call", "func"), ("Call", "args")})
_FIRST_ONE = frozenset({("If", "else")})

# No nodes to `ast`: their children belong to the node around.
_TRANSPARENT = frozenset(
    (
        *("module", "block", "else_clause", "finally_clause", "argument_list", "parenthesized_expression"),
        *("pair", "decorated_definition", "type", "type_parameter", "case_pattern", "keyword_pattern"),
    )
)
# Nodes to `ast`, but without a position: their children are nobody's.
_WITHOUT_POSITION = frozenset(
    (
        *("with_clause", "with_item", "for_in_clause", "if_clause", "case_clause", "decorator"),
        *("lambda_parameters", "default_parameter", "as_pattern_target"),
    )
)
_TRANSPARENT_IN = frozenset(
    (
        *(("delete_statement", "expression_list"), ("dictionary", "dictionary_splat")),
        *(("assignment", "assignment"), ("except_clause", "as_pattern"), ("dict_pattern", "splat_pattern")),
    )
)
_NOTHING = frozenset(("comment", "line_continuation"))
# One word, or names that are no nodes.
_LEAVES = frozenset(
    (
        *("string", "concatenated_string", "dotted_name", "aliased_import"),
        *("global_statement", "nonlocal_statement", "splat_pattern"),
    )
)
# Names that are part of their node.
_NAMES = frozenset(
    (
        *(("attribute", "attribute"), ("keyword_argument", "name"), ("class_definition", "name")),
        *(("import_from_statement", "module_name"), ("class_definition", "type_parameters")),
    )
)

_NAMES_BY_PLACE = frozenset((("keyword_pattern", 0), ("as_pattern", 1)))


class Spans:
    """Finds the words of spans of characters.

    Args:
        words: The words of the text.
        source: The text that was parsed, in bytes and characters.
        shift: Characters of the whole text before it.
        newlines: Whether a dependent takes in the newline behind it.
    """

    def __init__(self, words: Scan, source: EncodedText, shift: int, *, newlines: bool) -> None:
        self._surface = words.surface
        self._brackets = Brackets(words.surface)
        self._starts = words.start
        self._source = source
        self._shift = shift
        self._newlines = newlines

    def first(self, byte: int) -> int:
        """Index of the first word from a byte on, opening brackets left out."""
        place = bisect_left(self._starts, self._source.at(byte) + self._shift)
        while is_layout(self._surface[place]):
            place += 1
        return self._brackets.behind(place)

    def last(self, byte: int) -> int:
        """Index of the last word before a byte, closing brackets left out."""
        place = bisect_left(self._starts, self._source.at(byte) + self._shift) - 1
        while is_layout(self._surface[place]) or self._surface[place] == ";":
            place -= 1
        return self._brackets.before(place, newlines=self._newlines)


Related = Mapping[str, Sequence[tuple[str, str]]]
"""For each construct the parts that are related, head and dependent."""


def related_parts(relations: Iterable[str]) -> Related:
    """The parts of each construct by the names of the relations, those to children left out."""
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in relations:
        construct, _, parts = name.partition(":")
        head, _, dependent = parts.partition("->")
        if name != CHILDREN:
            found[construct].append((head, dependent))
    return found


def edges(
    root: tree_sitter.Node, matches: list[Match], spans: Spans, related: Related
) -> tuple[Edge, ...] | None:
    """The edges of a tree, by relation, head and dependent; None where a block is without a statement.

    Args:
        root: The tree.
        matches: Of `relations.scm`.
        spans: Finds words.
        related: Which parts are related.
    """
    blocks = [match["block"][0] for match in matches if "block" in match]
    if any(all(child.type in _NOTHING for child in block.named_children) for block in blocks):
        return None
    found = [*_constructs(matches, spans, related), *_children(root, spans)]
    return tuple(sorted(edge for edge in found if 0 < edge.head < edge.first <= edge.last))


def _constructs(matches: list[Match], spans: Spans, related: Related) -> Iterator[Edge]:
    """The edges between the parts of constructs."""
    merged: dict[tuple[str, int], dict[str, list[tree_sitter.Node]]] = defaultdict(lambda: defaultdict(list))
    nodes: dict[int, tree_sitter.Node] = {}
    outside: list[tuple[int, int]] = []
    other: set[int] = set()
    chains: dict[int, tree_sitter.Node] = {}
    for match in matches:
        if "outside" in match:
            outside += [node.byte_range for node in match["outside"]]
        elif "other" in match:
            other |= {node.id for node in match["other"]}
        elif "branches" in match:
            chains[match["branches"][0].id] = match["branches"][0]
        elif "block" not in match:
            construct = next(name for name in match if "." not in name)
            node = match[construct][0]
            nodes[node.id] = node
            for name, captured in match.items():
                if name != construct:
                    merged[construct, node.id][name.partition(".")[2]] += captured
    for node in chains.values():
        for branch, keyword, following in _following(node):
            merged["If", branch.id]["else"].append(keyword)
            merged["If", branch.id]["orelse"] += following
    hidden = Hidden(outside)
    for (construct, identity), parts in merged.items():
        if identity in other or hidden.holds(nodes[identity]):
            continue
        if construct == "Slice":
            _bounds(parts)
        for head, dependent in related[construct]:
            edge = _edge(construct, head, dependent, parts, spans)
            if edge is not None:
                yield edge


def _edge(
    construct: str, head: str, dependent: str, parts: dict[str, list[tree_sitter.Node]], spans: Spans
) -> Edge | None:
    left, right = _PARTS.get((construct, head, dependent), (head, dependent))
    if left not in parts or right not in parts:
        return None
    first_head = _begin(min(parts[left], key=_place))
    if (construct, head) in _HEAD_IS_LAST_WORD:
        at = spans.last(first_head.end_byte)
    else:
        at = spans.first(first_head.start_byte)
    nodes = sorted(parts[right], key=_place)
    if (construct, dependent) in _FIRST_ONE:
        nodes = nodes[:1]
    last = max((_bare(node) for node in nodes), key=lambda node: node.end_byte)
    begin, end = spans.first(_begin(nodes[0]).start_byte), spans.last(last.end_byte)
    return Edge(f"{construct}:{head}->{dependent}", at, begin, end)


def _following(
    node: tree_sitter.Node,
) -> Iterator[tuple[tree_sitter.Node, tree_sitter.Node, list[tree_sitter.Node]]]:
    """Each branch of an ``if`` that another follows, with the other's keyword and all that follows."""
    others = node.children_by_field_name("alternative")
    for branch, follower in zip([node, *others], others, strict=False):
        body = follower.child_by_field_name("body")
        yield branch, follower.children[0], [follower, others[-1]] if body is None else [body]


def _bounds(parts: dict[str, list[tree_sitter.Node]]) -> None:
    """Tell a slice's bounds apart: the lower stands before the first colon, the upper before the second."""
    colons = sorted({colon.start_byte for colon in parts["colon"]})
    for bound in parts["bound"]:
        before = bisect_left(colons, bound.start_byte)
        if before < 2:
            parts["upper" if before else "lower"] = [bound]


def _place(node: tree_sitter.Node) -> tuple[int, int]:
    return node.byte_range


def _begin(node: tree_sitter.Node) -> tree_sitter.Node:
    """Where a node begins: a block begins with its first statement, a definition behind its decorators."""
    if node.type == "block":
        node = next((child for child in node.named_children if child.type not in _NOTHING), node)
    return _bare(node)


def _bare(node: tree_sitter.Node) -> tree_sitter.Node:
    """What a node stands for: an expression without its parentheses, the value behind the last ``=``."""
    while True:
        inner = None
        if node.type == "parenthesized_expression":
            inner = next((child for child in node.named_children if child.type != "comment"), None)
        elif node.type == "assignment":
            inner = node.child_by_field_name("right")
        elif node.type == "with_item":
            inner = node.child_by_field_name("value")
        elif node.type == "as_pattern":
            inner = node.named_child(0)
        elif node.type == "decorated_definition":
            inner = node.child_by_field_name("definition")
        if inner is None:
            return node
        node = inner


class Hidden:
    """Stretches of bytes whose constructs are not looked at."""

    def __init__(self, stretches: list[tuple[int, int]]) -> None:
        self._outer: list[tuple[int, int]] = []
        for start, end in sorted(stretches, key=lambda stretch: (stretch[0], -stretch[1])):
            if not self._outer or start >= self._outer[-1][1]:
                self._outer.append((start, end))
        self._starts = [start for start, _ in self._outer]

    def holds(self, node: tree_sitter.Node) -> bool:
        """Whether a node lies in one of them."""
        place = bisect_left(self._starts, node.start_byte + 1) - 1
        return place >= 0 and node.end_byte <= self._outer[place][1]


Waiting = tuple[tree_sitter.Node, int, str]
"""A node, the word of the node around it (-1 where that has no position), and the kind of that node."""


def _children(root: tree_sitter.Node, spans: Spans) -> Iterator[Edge]:
    """From every node to its children, as `ast` has them."""
    waiting: list[Waiting] = [(root, -1, "")]
    while waiting:
        node, parent, above = waiting.pop()
        kind = node.type
        own = parent
        if kind in _WITHOUT_POSITION or above == "lambda_parameters":
            own = -1
        elif kind != "function_definition" and not _is_transparent(kind, above):
            own = spans.first(node.start_byte)
            if parent >= 0:
                yield Edge(CHILDREN, parent, own, spans.last(node.end_byte))
        if kind == "function_definition":
            body = node.child_by_field_name("body")
            waiting += [(body, -1, kind)] if body is not None else []
        elif kind == "if_statement":
            chain, inside = _branches(node, own, spans)
            yield from chain
            waiting += inside
        elif kind in ("subscript", "type_parameter"):
            elements, commas = _elements(node)
            start = own
            if commas:
                start, end = (
                    spans.first(elements[0].start_byte),
                    max(elements[-1].end_byte, commas[-1].end_byte),
                )
                yield Edge(CHILDREN, own, start, spans.last(end))
            waiting += [(child, start, "tuple") for child in elements]
            waiting += [(child, own, kind) for child in node.children_by_field_name("value")]
        elif kind not in _LEAVES:
            waiting += _named(node, own)


def _named(node: tree_sitter.Node, parent: int) -> Iterator[Waiting]:
    kind = node.type
    definition = node.child_by_field_name("definition")
    if kind == "decorated_definition" and definition is not None and definition.type == "function_definition":
        yield definition, parent, kind
        return
    named = 0
    for index, child in enumerate(node.children):
        if child.is_named and child.type not in _NOTHING:
            part = (kind, node.field_name_for_child(index))
            a_name = child.type == "identifier" and (kind, named) in _NAMES_BY_PLACE
            if part not in _NAMES and not a_name:
                yield child, parent, kind
            named += 1


def _branches(node: tree_sitter.Node, own: int, spans: Spans) -> tuple[list[Edge], list[Waiting]]:
    """The branches of an ``if``: to `ast`, an ``elif`` is an ``if`` in the ``else`` of the one before."""
    chain: list[Edge] = []
    inside: list[Waiting] = []
    for child, _, kind in _named(node, own):
        if child.type == "elif_clause":
            start = spans.first(child.start_byte)
            chain.append(Edge(CHILDREN, own, start, spans.last(node.end_byte)))
            inside += [(part, start, child.type) for part, _, _ in _named(child, start)]
            own = start
        else:
            inside.append((child, own, kind))
    return chain, inside


def _elements(node: tree_sitter.Node) -> tuple[list[tree_sitter.Node], list[tree_sitter.Node]]:
    """What stands between the brackets of a subscript, and the commas, which make it a tuple."""
    commas = [child for child in node.children if child.type == ","]
    if node.type == "subscript":
        return node.children_by_field_name("subscript"), commas
    return [child for child in node.named_children if child.type not in _NOTHING], commas


def _is_transparent(kind: str, above: str) -> bool:
    return kind in _TRANSPARENT or (above, kind) in _TRANSPARENT_IN
