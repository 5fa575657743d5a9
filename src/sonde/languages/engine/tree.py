"""Syntax trees as columns, their functions, calls and tokens, and binary constituency trees.

A `Tree` has one row per node, in pre-order. Positions are characters; tree-sitter's byte positions never
leave `sonde.languages`.

`binarise` writes a syntax tree over its code tokens as a binary tree, in three rows of values, after
AST-Probe (Hernández López et al. 2022), who follow Shen et al. (2018). A node with a single child node or
token is merged with it; a node with more than two becomes a chain to the right, whose added nodes have no
label. Exactly one node then separates two neighbouring tokens, the lowest one that contains both: its height
and label are the values of that gap. A token that is alone in its node has that node's label itself. Only
the order of the heights counts: the highest gap splits the whole sequence, then the highest gap on each side
splits that side; `find_gap_spans` reads the tree back in this way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Num

ERROR = "ERROR"
"""Kind of the nodes and characters that a grammar could not parse."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The syntax tree of a text.

    Rows are nodes in pre-order, so the descendants of node ``i`` are exactly ``i + 1 .. last[i] - 1``.
    A text that does not parse still has a tree; ``error`` marks ERROR and MISSING nodes.

    Attributes:
        text: The source.
        language: The public name of the language.
        kinds: Names of the node kinds that occur in the tree.
        kind: Index into ``kinds``.
        parent: Row of the parent, -1 for the root.
        start: First character.
        end: One past the last character.
        last: One past the last row of the node's subtree.
        named: Whether the grammar names the node (``identifier``) rather than spelling it (``"("``).
        error: Whether the node is an ERROR or MISSING node.
        leaves: Rows of the childless nodes that cover at least one character, in text order.
    """

    text: str
    language: str
    kinds: tuple[str, ...]
    kind: Int[np.ndarray, " node"]
    parent: Int[np.ndarray, " node"]
    start: Int[np.ndarray, " node"]
    end: Int[np.ndarray, " node"]
    last: Int[np.ndarray, " node"]
    named: Bool[np.ndarray, " node"]
    error: Bool[np.ndarray, " node"]
    leaves: Int[np.ndarray, " leaf"]

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def has_error(self) -> bool:
        """Return whether the tree has an ERROR or MISSING node."""
        return bool(self.error.any())

    def kind_name(self, node: int) -> str:
        """Return the grammar's name for the kind of a node."""
        return self.kinds[self.kind[node]]

    def node_text(self, node: int) -> str:
        """Return the text that a node covers."""
        return self.text[self.start[node] : self.end[node]]

    def ancestors(self, node: int) -> list[int]:
        """List the rows from the node's parent up to the root."""
        rows: list[int] = []
        row = int(self.parent[node])
        while row >= 0:
            rows.append(row)
            row = int(self.parent[row])
        return rows


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method that lies in no other function.

    Attributes:
        start: First character of the definition in the file (its first decorator or modifier).
        end: One past the last character.
        name: The unqualified name.
        qualified_name: Enclosing classes and the name, joined by dots.
        docstring: The documentation as written, without quotes or comment marks; empty if there is none.
        margins: Spans of the indentation before its further decorators and its name. `slice_from` removes
            them, since the first line of the definition begins without its own indentation.
    """

    start: int
    end: int
    name: str
    qualified_name: str
    docstring: str = ""
    margins: tuple[tuple[int, int], ...] = ()

    def slice_from(self, text: str) -> str:
        """Extract the definition from the text of its file."""
        parts: list[str] = []
        position = self.start
        for start, end in self.margins:
            parts.append(text[position:start])
            position = end
        return "".join([*parts, text[position : self.end]])

    def to_file_position(self, position: int) -> int:
        """Convert a position in the extracted definition to one in the file."""
        file_position = self.start + position
        for start, end in self.margins:
            file_position += end - start if start <= file_position else 0
        return file_position

    def to_function_position(self, position: int) -> int:
        """Convert a position in the file to one in the extracted definition."""
        removed_length = sum(min(position, end) - start for start, end in self.margins if start < position)
        return position - self.start - removed_length


@dataclass(frozen=True, slots=True)
class Definition:
    """A named definition: ``kind`` is ``"function"``, ``"method"`` or ``"class"``; the span is the name's."""

    name: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call by name.

    Attributes:
        name: The called name: ``f`` in ``f(x)`` and in ``a.b.f(x)``.
        start: First character of the name.
        end: One past its last character.
        is_method: Whether the call has a receiver (``a.f()``).
        arguments_start: First character of the argument list, its opening bracket included; ``end`` if the
            call has no argument list.
        arguments_end: One past the last character of the argument list, its closing bracket included.
        in_error: Whether the call lies inside an ERROR node.
    """

    name: str
    start: int
    end: int
    is_method: bool
    arguments_start: int
    arguments_end: int
    in_error: bool = False


@dataclass(frozen=True, slots=True)
class Construct:
    """A span with a language-neutral label, one of ``CONSTRUCT_LABELS``."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class CodeTokens:
    """The code tokens of a text as columns, in text order, never overlapping; whitespace is in no token.

    Attributes:
        start: First character.
        end: One past the last character.
        kind: Index into ``TOKEN_KINDS``.
        role: One of ``TOKEN_ROLES`` for identifiers and literals, else empty.
        node: Row of the token's leaf in the tree; for text in no leaf, row of the innermost node around it.
    """

    start: Int[np.ndarray, " token"]
    end: Int[np.ndarray, " token"]
    kind: Int[np.ndarray, " token"]
    role: tuple[str, ...] = field(default=())
    node: Int[np.ndarray, " token"] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.start)


TOKEN_KINDS: tuple[str, ...] = (
    "keyword",
    "identifier",
    "operator",
    "literal",
    "comment",
    "punctuation",
    "layout",
    "error",
)


TOKEN_ROLES: tuple[str, ...] = (
    *("function", "class", "parameter", "argument", "keyword_argument", "variable", "attribute"),
    *("call", "module", "type", "decorator"),
    *("string", "character", "number", "boolean", "none", "ellipsis"),
)


CONSTRUCT_LABELS: tuple[str, ...] = (
    *("function", "class", "parameters", "body", "docstring", "comment", "annotation", "type"),
    *("call", "arguments", "subscript", "attribute_access", "operator_expression", "assignment"),
    *("condition", "branch", "loop", "jump", "return", "yield", "raise", "exception_handling"),
    *(
        "resource",
        "assertion",
        "import",
        "comprehension",
        "lambda",
        "collection",
        "string",
        "number",
        "error",
    ),
)


Labels = tuple[str, ...]
"""Kinds of the nodes that span the same tokens, the outermost first."""


NO_LABELS: Labels = ()
"""Labels of a node that binarisation added, and of a token that no node spans alone."""


Constituents = Counter[tuple[str, int, int]]
"""Node kind, first token and last token of each constituent; the same may occur several times."""


@dataclass(frozen=True, slots=True, eq=False)
class BinaryTree:
    """A binarised constituency tree.

    Attributes:
        distance: Height of the lowest node that spans tokens ``i`` and ``i + 1``.
        labels: Labels of that node, `NO_LABELS` if binarisation added it.
        unary: Labels of the nodes that span a single token.
    """

    distance: Int[np.ndarray, " gap"]
    labels: tuple[Labels, ...]
    unary: tuple[Labels, ...]


class _Subtree(NamedTuple):
    """A subtree: first and last token, height, the gap that its root splits (-1 for a token), root labels."""

    first: int
    last: int
    height: int
    gap: int
    labels: Labels


def binarise(tree: Tree, tokens: CodeTokens) -> BinaryTree:
    """Build the binary tree over the tokens of a tree; nodes without tokens are dropped.

    Args:
        tree: The syntax tree.
        tokens: Its tokens, at least one. Text that a node holds between its children is a token directly
            in that node.
    """
    subtrees: dict[int, list[_Subtree]] = {}
    for token, holder in enumerate(_find_holders(tree, tokens)):
        subtrees.setdefault(holder, []).append(_Subtree(token, token, 0, -1, NO_LABELS))
    distance = np.zeros(max(0, len(tokens) - 1), np.int64)
    labels, unary = [NO_LABELS] * len(distance), [NO_LABELS] * len(tokens)

    def assign_labels(subtree: _Subtree) -> None:
        if subtree.gap < 0:
            unary[subtree.first] = subtree.labels
        else:
            labels[subtree.gap] = subtree.labels

    # Rows are in pre-order, so in reverse each node follows all its descendants.
    rows = sorted(_find_ancestors(tree, subtrees), reverse=True)
    for row in rows:
        children = sorted(subtrees.pop(row))
        kind = tree.kind_name(row)
        if len(children) == 1:
            subtree = children[0]._replace(labels=(kind, *children[0].labels))
        else:
            height = children[-1].height
            for left in children[-2::-1]:
                height = max(left.height, height) + 1
                distance[left.last] = height
            for child in children:
                assign_labels(child)
            subtree = _Subtree(children[0].first, children[-1].last, height, children[0].last, (kind,))
        subtrees.setdefault(int(tree.parent[row]), []).append(subtree)
    for root in subtrees[-1]:
        assign_labels(root)
    return BinaryTree(distance, tuple(labels), tuple(unary))


def _find_holders(tree: Tree, tokens: CodeTokens) -> list[int]:
    """Find the row of the node that holds each token directly, -1 if the token is the root."""
    rows = np.sort(tokens.node)
    token_counts = np.searchsorted(rows, tree.last[tokens.node]) - np.searchsorted(rows, tokens.node)
    return np.where(token_counts > 1, tokens.node, tree.parent[tokens.node]).tolist()


def _find_ancestors(tree: Tree, holders: Sequence[int] | dict[int, list[_Subtree]]) -> set[int]:
    """Collect rows and all their ancestors."""
    rows: set[int] = set()
    for holder in holders:
        row = holder
        while row >= 0 and row not in rows:
            rows.add(row)
            row = int(tree.parent[row])
    return rows


def count_constituents(
    distance: Num[np.ndarray, " gap"], labels: Sequence[Labels], unary: Sequence[Labels]
) -> Constituents:
    """Count the constituents of a tree given as distances and labels; any values give a tree.

    Args:
        distance: Height of each gap; the first of the highest gaps splits the sequence, then each part
            is split in the same way.
        labels: Labels of each gap.
        unary: Labels of each token.
    """
    counts: Constituents = Counter()
    for (first, last), kinds in zip(find_gap_spans(distance), labels, strict=True):
        counts.update((kind, first, last) for kind in kinds)
    for token, kinds in enumerate(unary):
        counts.update((kind, token, token) for kind in kinds)
    return counts


def find_gap_spans(distance: Num[np.ndarray, " gap"]) -> list[tuple[int, int]]:
    """Find the first and last token of the span that each gap splits, up to the next higher gap."""
    heights = distance.tolist()
    first, last = [0] * len(heights), [len(heights)] * len(heights)
    open_gaps: list[int] = []
    for gap, height in enumerate(heights):
        while open_gaps and heights[open_gaps[-1]] < height:
            last[open_gaps.pop()] = gap
        first[gap] = open_gaps[-1] + 1 if open_gaps else 0
        open_gaps.append(gap)
    return list(zip(first, last, strict=True))
