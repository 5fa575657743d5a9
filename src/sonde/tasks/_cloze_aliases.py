"""Adversarial aliases: aliases that a corpus uses for other modules, put in place of the right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

import numpy as np

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed

DRAWN = 10
"""Adversarial aliases a query, as published."""


class AliasPool:
    """The aliases of modules of one language in a corpus.

    Args:
        stands_for: For each alias, all that it stands for somewhere in the corpus.
        modules: What is a module; aliases of functions, classes and values are not taken.
    """

    def __init__(self, stands_for: Mapping[str, Set[str]], modules: Set[str]) -> None:
        self._aliases = sorted(alias for alias, names in stands_for.items() if not names.isdisjoint(modules))
        self._known = frozenset(self._aliases)
        self._of: dict[str, set[str]] = {}
        for alias, names in stands_for.items():
            for name in names:
                self._of.setdefault(name, set()).add(alias)

    def suffices(self, module: str, alias: str) -> bool:
        """Whether there are ten aliases of modules that never stand for a module, beside its right alias."""
        return len(self._known - self._barred(module, alias)) >= DRAWN

    def _barred(self, module: str, alias: str) -> set[str]:
        return self._of.get(module, set()) | {alias}

    def draw(self, module: str, alias: str, seed: int, query: str) -> tuple[str, ...]:
        """Ten aliases that never stand for a module, for one query.

        Args:
            module: What the right alias stands for.
            alias: The right alias.
            seed: Seed of the data set.
            query: Identity of the query; each draws for itself.

        Raises:
            InputError: The corpus has fewer than ten aliases of other modules.
        """
        barred = self._barred(module, alias)
        left = len(self._known - barred)
        if left < DRAWN:
            raise InputError(
                f"adversarial aliases for {module!r}: the corpus has {left} aliases of other modules, "
                f"{DRAWN} are needed; name a larger corpus, or leave the template 'adversarial' out"
            )
        return tuple(_take(self._shuffled(seed, query), barred, DRAWN))

    def _shuffled(self, seed: int, query: str) -> Iterator[str]:
        """Aliases in a random order, drawn as far as they are asked for."""
        rng = np.random.default_rng(derive_seed("adversarial", seed, query))
        drawn: set[int] = set()
        while len(drawn) < len(self._aliases):
            for place in rng.integers(len(self._aliases), size=2 * DRAWN).tolist():
                if place not in drawn:
                    drawn.add(place)
                    yield self._aliases[place]


def _take(aliases: Iterator[str], barred: Set[str], count: int) -> Iterator[str]:
    for alias in aliases:
        if alias not in barred:
            yield alias
            count -= 1
            if not count:
                return
