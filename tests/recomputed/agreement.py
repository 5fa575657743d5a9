"""How far a number of a run and the same number computed again lie apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

NOISE = 1e-4
"""Relative difference that the order of sums in float32 explains."""

HALF = 2e-3
"""The same of what was stored, or fitted to what was stored, in half precision."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One line of the table.

    Attributes:
        number: What was computed.
        sonde: Mean of the values in the run.
        recomputed: Mean of the values computed again.
        difference: Largest difference of two values, relative to those above 1.
        n: Values that were compared.
        differing: Values that differ by more than the tolerance.
        allowed: Values that may differ.
    """

    number: str
    sonde: float
    recomputed: float
    difference: float
    n: int
    differing: int
    allowed: int = 0

    @property
    def agrees(self) -> bool:
        """Whether enough values were compared and agree."""
        return self.n > 0 and self.differing <= self.allowed


def compare(
    number: str, sonde: ArrayLike, recomputed: ArrayLike, *, tolerance: float = NOISE, share: float = 0.0
) -> Agreement:
    """Compare values with the same values computed again.

    Args:
        number: What they are.
        sonde: Values of the run.
        recomputed: The same computed again.
        tolerance: Largest difference, relative to values above 1.
        share: Share of the values that may differ: ranks and classes may turn over within noise.
    """
    one, two = (np.asarray(values, dtype=np.float64).ravel() for values in (sonde, recomputed))
    if len(one) != len(two):
        raise ValueError(f"{number}: {len(one)} values in the run, {len(two)} computed again")
    if not len(one):
        return Agreement(number, np.nan, np.nan, np.nan, 0, 0)
    apart = _difference(one, two)
    return Agreement(
        number,
        float(one.mean()),
        float(two.mean()),
        float(apart.max()),
        len(one),
        int((~(apart <= tolerance)).sum()),
        int(share * len(one)),
    )


def _difference(
    one: Float[np.ndarray, " value"], two: Float[np.ndarray, " value"]
) -> Float[np.ndarray, " value"]:
    return np.abs(one - two) / np.maximum(1.0, np.abs(one))


HEADING = "| number | sonde | recomputed | largest difference | n | differing |\n|---|---|---|---|---|---|"


def format_row(one: Agreement) -> str:
    """Format an agreement as a row of a Markdown table."""
    return (
        f"| {one.number} | {one.sonde:.6g} | {one.recomputed:.6g} | {one.difference:.1e} | {one.n:,} | "
        f"{one.differing:,}{'' if one.agrees else ' (disagrees)'} |"
    )
