"""Multiple comparisons: p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995)."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.stats.intervals import LEVEL


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of a family of tests by Benjamini and Hochberg's procedure.

    Args:
        p_values: One for each test, each between 0 and 1.

    >>> adjust_p_values([0.01, 0.02, 0.9])
    [0.03, 0.03, 0.9]
    """
    if not p_values:
        return []
    # Imported here: it takes most of a second, and most runs adjust nothing.
    from scipy.stats import false_discovery_control

    return false_discovery_control(list(p_values)).tolist()


def discovery_level(tests: int, discoveries: int) -> float:
    """Return the p-value below which one more difference of a family is found.

    Args:
        tests: Number of differences tested together.
        discoveries: Number of them that are found.
    """
    return (1 - LEVEL) * (min(discoveries + 1, tests) / tests if tests else 1.0)
