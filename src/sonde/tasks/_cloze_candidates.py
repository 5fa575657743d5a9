"""Names that compete for a level, for models that score whole statements.

Which names compete is fixed by the corpus and the seed alone, so it is the same for all models and under
any limit: the right one, the most called ones of the same place in a name (first, last or in between), the
nearest in spelling, and random ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from sonde.base.fingerprint import derive_seed

MOST = 100
"""Candidates a query at most, the right one among them."""

TOP, INNER, MEMBER = "top", "inner", "member"


def place(level: int, levels: int) -> str:
    """Where in a name a level stands.

    >>> [place(level, 3) for level in range(3)]
    ['top', 'inner', 'member']
    """
    return TOP if level == 0 else MEMBER if level == levels - 1 else INNER


class Candidates:
    """The levels of all names of a corpus in one language, by place.

    Args:
        names: Fully qualified names with their calls.
        size: Candidates a query at most.
        seed: Draws other random ones.
    """

    def __init__(self, names: Iterable[tuple[str, int]], size: int, seed: int) -> None:
        counts: dict[str, Counter[str]] = {TOP: Counter(), INNER: Counter(), MEMBER: Counter()}
        for name, calls in names:
            levels = name.split(".")
            for number, level in enumerate(levels):
                counts[place(number, len(levels))][level] += calls
        self._pools = {where: _Pool(found) for where, found in counts.items()}
        self._size = size
        self._seed = seed

    def of(self, level: str, where: str, identity: str) -> tuple[str, ...]:
        """The candidates for a level at a place, the right one first, for one query."""
        seed = derive_seed("candidates", self._seed, identity)
        return self._pools[where].choose(level, self._size, seed)


class _Pool:
    """The names of one place, ready to be chosen from."""

    def __init__(self, counts: Counter[str]) -> None:
        self._names = sorted(counts)
        self._at = {name: number for number, name in enumerate(self._names)}
        self._frequent = sorted(counts, key=lambda name: (-counts[name], name))
        self._pairs = _letter_pairs(self._names)

    def choose(self, right: str, size: int, seed: int) -> tuple[str, ...]:
        """The right name, then a third each of frequent, near and random ones."""
        share = (size - 1) // 3
        chosen = dict.fromkeys([right])
        _add(chosen, self._frequent, 1 + share)
        _add(chosen, self._nearest(right, size), 1 + 2 * share)
        order = np.random.default_rng(seed).permutation(len(self._names)).tolist()
        _add(chosen, (self._names[number] for number in order), size)
        return tuple(chosen)

    def _nearest(self, right: str, count: int) -> list[str]:
        """Names by the cosine of their letter pairs, ties by name."""
        row = self._pairs[[self._at[right]]]
        scores = (self._pairs @ row.T).toarray().ravel()
        order = np.argsort(-scores, kind="stable")
        return [self._names[number] for number in order[:count].tolist()]


def _add(chosen: dict[str, None], names: Iterable[str], size: int) -> None:
    for name in names:
        if len(chosen) >= size:
            return
        chosen.setdefault(name)


def _letter_pairs(names: Sequence[str]) -> sparse.csr_array:
    """Rows of unit length: how often each pair of neighbouring letters stands in each name."""
    columns: dict[str, int] = {}
    rows: list[int] = []
    places: list[int] = []
    for row, name in enumerate(names):
        padded = f"^{name.lower()}$"
        for pair in (padded[at : at + 2] for at in range(len(padded) - 1)):
            rows.append(row)
            places.append(columns.setdefault(pair, len(columns)))
    shape = (len(names), max(len(columns), 1))
    table = sparse.coo_array((np.ones(len(rows)), (rows, places)), shape=shape).tocsr()
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(length, 1.0)) @ table)
