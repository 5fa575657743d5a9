"""The kinds of syntax nodes above each piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int

from sonde.languages import Tree
from sonde.lenses.surprisal.pools import Pooled


@dataclass(slots=True)
class _Paths:
    """Paths of distinct kinds, outermost first, each once; the empty one is number 0."""

    known: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    _longer: dict[tuple[int, str], int] = field(default_factory=dict)

    def longer(self, path: int, kind: str) -> int:
        """The number of a path with one more kind at its end, unless it holds that kind already."""
        found = self._longer.get((path, kind))
        if found is None:
            kinds, found = self.known[path], path
            if kind not in kinds:
                found = len(self.known)
                self.known.append((*kinds, kind))
            self._longer[path, kind] = found
        return found


def ancestors(
    trees: Sequence[Tree],
    nodes: Sequence[Int[np.ndarray, " subword"]],
    holds_several: Bool[np.ndarray, " piece"],
) -> Pooled:
    """Distinct kinds above each piece, outermost first, joined by slashes.

    Args:
        trees: The trees of some items.
        nodes: For each tree the nodes of its pieces, -1 for none.
        holds_several: Whether a piece lies in several code tokens; its node is above it already. The pieces
            of one tree stand behind those of the other.
    """
    paths = _Paths()
    found: list[Int[np.ndarray, " subword"]] = []
    row = 0
    for tree, held in zip(trees, nodes, strict=True):
        several = holds_several[row : row + len(held)]
        above = np.where(several, held, np.append(tree.parent, -1)[held])
        found.append(_numbers(tree, above, paths)[above])
        row += len(held)
    return Pooled(tuple("/".join(kinds) for kinds in paths.known), np.concatenate(found))


def _numbers(
    tree: Tree, above: Int[np.ndarray, " piece"], paths: _Paths
) -> Int[np.ndarray, " node_and_none"]:
    """The numbers of the paths to the nodes that are asked for; 0 for none, which is the last entry."""
    numbers = [0] * (len(tree) + 1)
    # Parents stand before their children.
    wanted = tree.last > np.arange(1, len(tree) + 1)
    wanted[above[above >= 0]] = True
    rows = np.flatnonzero(wanted)
    parents, kinds = tree.parent[rows].tolist(), tree.kind[rows].tolist()
    for row, parent, kind in zip(rows.tolist(), parents, kinds, strict=True):
        numbers[row] = paths.longer(numbers[parent], tree.kinds[kind])
    return np.array(numbers)
