"""A syntax tree over its code tokens as a binary tree, written as three rows of values, and back.

After AST-Probe (Hernández López et al. 2022), who follow Shen et al. (2018). A node that holds one node or
token is joined with it; a node that holds more than two becomes a chain to the right, whose added nodes have
no label. Between two neighbouring tokens stands then exactly one node, the lowest around both: its height and
its label are the values of that gap, and a token alone in its node has that node's label itself. Of the
heights only the order counts: the highest gap parts the whole, the highest on either side that side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Num

from sonde.languages._tree import CodeTokens, Tree

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
