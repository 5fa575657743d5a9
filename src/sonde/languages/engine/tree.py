"""A syntax tree as columns: one row a node in pre-order, positions in characters.

tree-sitter counts bytes; everything outside this folder counts characters. The conversion happens here
and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Num

ERROR = "ERROR"
"""The kind of nodes and characters that a grammar could not place."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The syntax tree of one text.

    Rows are nodes in pre-order, so the descendants of node ``i`` are exactly ``i + 1 .. last[i] - 1``.
    A text that does not parse is still a tree; ``error`` marks ERROR and MISSING nodes.

    Attributes:
        text: The source.
        language: The public name of the language.
        kinds: Names of the node kinds that occur in this tree.
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
        """Whether the text did not parse cleanly."""
        return bool(self.error.any())

    def kind_name(self, node: int) -> str:
        """The grammar's name of a node's kind."""
        return self.kinds[self.kind[node]]

    def node_text(self, node: int) -> str:
        """The characters that a node covers."""
        return self.text[self.start[node] : self.end[node]]

    def ancestors(self, node: int) -> list[int]:
        """Rows from the node's parent up to the root."""
        path: list[int] = []
        above = int(self.parent[node])
        while above >= 0:
            path.append(above)
            above = int(self.parent[above])
        return path


@dataclass(frozen=True, slots=True)
class Function:
    """A definition with no enclosing function; methods included.

    Attributes:
        start: First character of the definition in the file (its first decorator or modifier).
        end: One past the last character.
        name: The bare name.
        qualified_name: Enclosing classes and the name, joined by dots.
        docstring: The documentation as written, without its quotes or comment marks; empty where none is.
        margins: Blanks that indent its further decorators and its name, first character and one past the
            last. Without them the definition is one by itself: its first line has lost its own.
    """

    start: int
    end: int
    name: str
    qualified_name: str
    docstring: str = ""
    margins: tuple[tuple[int, int], ...] = ()

    def taken_from(self, text: str) -> str:
        """The definition by itself, out of the text of its file."""
        parts: list[str] = []
        at = self.start
        for start, end in self.margins:
            parts.append(text[at:start])
            at = end
        return "".join([*parts, text[at : self.end]])

    def outside(self, position: int) -> int:
        """A character of the definition by itself as one of the file."""
        at = self.start + position
        for start, end in self.margins:
            at += end - start if start <= at else 0
        return at

    def inside(self, position: int) -> int:
        """A character of the file as one of the definition by itself."""
        left_out = sum(min(position, end) - start for start, end in self.margins if start < position)
        return position - self.start - left_out


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
        is_method: Whether a receiver stands before the name (``a.f()``), else the call is bare.
        arguments_start: First character of the argument list, its opening bracket included; ``end`` where a
            call is written without one.
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
    """The code tokens of a text as columns, in text order, never overlapping; blanks are not tokens.

    Attributes:
        start: First character.
        end: One past the last character.
        kind: One of ``TOKEN_KINDS`` by index.
        role: One of ``TOKEN_ROLES`` for identifiers and literals, else empty.
        node: Row of the leaf in the tree that the token is; for text in no leaf, of the node around it.
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
"""Kinds of nodes that hold the same tokens, the outermost first."""


ADDED: Labels = ()
"""Of a node that only binarisation made, and of a token that is not alone in its node."""


Constituents = Counter[tuple[str, int, int]]
"""Kinds of nodes with the first and the last token that they hold; the same may be there several times."""


@dataclass(frozen=True, slots=True, eq=False)
class BinaryTree:
    """A binarised tree.

    Attributes:
        distance: Height of the lowest node around tokens ``i`` and ``i + 1``; its two children lie below.
        labels: That node's labels, `ADDED` where binarisation made it.
        unary: Labels of the nodes that hold a token alone.
    """

    distance: Int[np.ndarray, " gap"]
    labels: tuple[Labels, ...]
    unary: tuple[Labels, ...]


class _Part(NamedTuple):
    """A subtree: its tokens, its height, the gap at its top (-1 for a token), and the labels there."""

    first: int
    last: int
    height: int
    gap: int
    labels: Labels


def binarise(tree: Tree, tokens: CodeTokens) -> BinaryTree:
    """The binary tree over some tokens of a tree; nodes that hold no token are left out.

    Args:
        tree: The tree.
        tokens: Its tokens, at least one. What a node holds between its children is a token directly in it.
    """
    parts: dict[int, list[_Part]] = {}
    for token, holder in enumerate(_holders(tree, tokens)):
        parts.setdefault(holder, []).append(_Part(token, token, 0, -1, ADDED))
    distance = np.zeros(max(0, len(tokens) - 1), np.int64)
    labels, unary = [ADDED] * len(distance), [ADDED] * len(tokens)

    def settle(part: _Part) -> None:
        if part.gap < 0:
            unary[part.first] = part.labels
        else:
            labels[part.gap] = part.labels

    # Rows are in pre-order, so that a node is met when all that it holds has been.
    waiting = sorted(_ancestors(tree, parts), reverse=True)
    for row in waiting:
        held = sorted(parts.pop(row))
        kind = tree.kind_name(row)
        if len(held) == 1:
            made = held[0]._replace(labels=(kind, *held[0].labels))
        else:
            height = held[-1].height
            for left in held[-2::-1]:
                height = max(left.height, height) + 1
                distance[left.last] = height
            for part in held:
                settle(part)
            made = _Part(held[0].first, held[-1].last, height, held[0].last, (kind,))
        parts.setdefault(int(tree.parent[row]), []).append(made)
    for root in parts[-1]:
        settle(root)
    return BinaryTree(distance, tuple(labels), tuple(unary))


def _holders(tree: Tree, tokens: CodeTokens) -> list[int]:
    """The row of the node that holds each token directly, -1 where the token is the root."""
    rows = np.sort(tokens.node)
    inside = np.searchsorted(rows, tree.last[tokens.node]) - np.searchsorted(rows, tokens.node)
    return np.where(inside > 1, tokens.node, tree.parent[tokens.node]).tolist()


def _ancestors(tree: Tree, holders: Sequence[int] | dict[int, list[_Part]]) -> set[int]:
    """Some rows and all above them."""
    found: set[int] = set()
    for holder in holders:
        row = holder
        while row >= 0 and row not in found:
            found.add(row)
            row = int(tree.parent[row])
    return found


def constituents(
    distance: Num[np.ndarray, " gap"], labels: Sequence[Labels], unary: Sequence[Labels]
) -> Constituents:
    """The constituents that three rows of values stand for; any values give some tree.

    Args:
        distance: The first of the highest gaps parts the whole, and so on in each part.
        labels: Of each gap.
        unary: Of each token.
    """
    found: Constituents = Counter()
    for (first, last), kinds in zip(spans(distance), labels, strict=True):
        found.update((kind, first, last) for kind in kinds)
    for token, kinds in enumerate(unary):
        found.update((kind, token, token) for kind in kinds)
    return found


def spans(distance: Num[np.ndarray, " gap"]) -> list[tuple[int, int]]:
    """First and last token of the part that each gap parts: it ends where a higher gap stands."""
    heights = distance.tolist()
    first, last = [0] * len(heights), [len(heights)] * len(heights)
    higher: list[int] = []
    for gap, height in enumerate(heights):
        while higher and heights[higher[-1]] < height:
            last[higher.pop()] = gap
        first[gap] = higher[-1] + 1 if higher else 0
        higher.append(gap)
    return list(zip(first, last, strict=True))
