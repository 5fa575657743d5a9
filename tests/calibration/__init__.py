"""How often verdicts are wrong, and intervals miss: each file counts it over draws whose truth is known.

A file has ``run(draws, seed)``, which gives rows, and its numbers of draws: ``DRAWS`` in full, ``SHORT`` for
the tests. A row fails where its count lies outside its bound.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.stats import binom

ERROR = 0.05
"""How often a verdict may be false."""


class Bound(NamedTuple):
    """Between what a count must lie, both ends included."""

    least: float = 0.0
    maximum: float = math.inf

    def __str__(self) -> str:
        if self.maximum == math.inf:
            return f"at least {self.least:g}"
        return f"{self.least:g} to {self.maximum:g}" if self.least else f"at most {self.maximum:g}"


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: What was counted, in words.
        draws: Of how many.
        count: How often it happened (of a width: its ratio).
        bound: Between what it must lie.
    """

    name: str
    draws: int
    count: float
    bound: Bound

    @property
    def holds(self) -> bool:
        """Whether the count lies within its bound."""
        return self.bound.least <= self.count <= self.bound.maximum


class Calibration(NamedTuple):
    """One file of this folder.

    Attributes:
        name: Its stem.
        run: Its rows, from a number of draws and a seed.
        draws: How many in full.
        short: How many in the tests.
    """

    name: str
    run: Callable[[int, int], Sequence[Row]]
    draws: int
    short: int


def at_most_by_chance(draws: int, rate: float = ERROR) -> Bound:
    """What a test that errs at this rate stays within in 19 of 20 such counts.

    >>> [at_most_by_chance(draws).most for draws in (20, 100, 200)]
    [3.0, 9.0, 15.0]
    """
    return Bound(maximum=float(binom.ppf(0.95, draws, rate)))


def at_least(share: float, draws: int) -> Bound:
    """A share of the draws, rounded down.

    >>> at_least(0.9, 20).least
    18.0
    """
    return Bound(least=float(math.floor(share * draws + 1e-9)))


def calibrations() -> list[Calibration]:
    """The files of this folder that count something, by name."""
    stems = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    names = [stem for stem in stems if not stem.startswith(("_", "test_"))]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [
        Calibration(name, one.run, one.DRAWS, one.SHORT) for name, one in zip(names, modules, strict=True)
    ]
