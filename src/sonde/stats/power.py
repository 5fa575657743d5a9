"""Power analysis: the detectable difference of a sample, and the sample size for a difference.

Of several tests the level is that of the false discovery rate (Benjamini and Hochberg 1995).

A sample of clusters is worth its effective clusters (Kish 1965) for the degrees of freedom, and its items
over their design effect, 1 + (size of the cluster that a random item stands in - 1) * intraclass correlation,
for the standard error. Both count as `sonde.stats.estimate` counts them of finished scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sonde.stats.estimate import MIN_ICC, kish
from sonde.stats.intervals import LEVEL

POWER = 0.8
"""Power: probability of finding a difference that is called detectable."""


_MAX_CLUSTERS = 1_000_000


_ENDS = ("ci_low", "ci_high")


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


def detectable_difference(
    error: float, df: float, level: float = 1 - LEVEL, width_factor: float = 1.0
) -> float:
    """Return the difference that four of five tests find: (t at 1 - level / 2 + t at 0.8) standard errors.

    Args:
        error: Standard error of the difference.
        df: Degrees of freedom; below one there is no test, and the result is NaN.
        level: Significance level; for several tests see `discovery_level`.
        width_factor: Factor of the standard error that the test uses, see `sonde.stats.intervals`.

    >>> round(detectable_difference(0.01, 29), 4)
    0.029
    >>> round(detectable_difference(0.01, 29, discovery_level(100, 0)), 4)
    0.0477
    """
    return _detectable_errors(df, level, width_factor) * error


def degrees_of_freedom(row: Mapping[str, Any]) -> float:
    """Return the degrees of freedom of a score's interval; by default one less than its clusters."""
    df = row.get("df")
    if df is not None and math.isfinite(df):
        return df
    clusters = row.get("effective_clusters")
    return (row.get("n_clusters") or 0 if clusters is None else clusters) - 1


def detectable_from_score(row: Mapping[str, Any], n_comparisons: float = 1) -> float:
    """Return the detectable difference from 0 of a scored difference; NaN without an interval.

    Args:
        row: The score of a difference.
        n_comparisons: Number of controls of which it is the best, so that its interval holds for all of them.
    """
    return detectable_difference(
        standard_error(row), degrees_of_freedom(row), (1 - LEVEL) / max(n_comparisons, 1)
    )


def detectable_gap(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Return the difference that four of five pairs of scores show by intervals that do not overlap.

    Args:
        first: A score.
        second: A score that is not paired with it.
    """
    df = min(degrees_of_freedom(first), degrees_of_freedom(second))
    if not df >= 1:
        return math.nan
    ends = [row[end] if row[end] is not None else math.nan for row in (first, second) for end in _ENDS]
    halves = (ends[1] - ends[0] + ends[3] - ends[2]) / 2
    return halves + float(stdtrit(df, POWER)) * math.hypot(standard_error(first), standard_error(second))


def _detectable_errors(df: float, level: float = 1 - LEVEL, width_factor: float = 1.0) -> float:
    """Return the detectable difference in standard errors."""
    return float(stdtrit(df, 1 - level / 2) * width_factor + stdtrit(df, POWER)) if df >= 1 else math.nan


def standard_error(row: Mapping[str, Any]) -> float:
    """Return the standard error of a score, from its interval; NaN without an interval.

    Of a proportion it is that of its effective size, with one success and one failure more (Agresti and Coull
    1998), since a few items may all be right.

    Args:
        row: ``value, ci_low, ci_high, n, n_eff, df`` of a score.
    """
    low, high = (row[name] if row[name] is not None else math.nan for name in _ENDS)
    df = degrees_of_freedom(row)
    if not (math.isfinite(high - low) and df >= 1):
        return math.nan
    quantile = float(stdtrit(df, 0.5 + LEVEL / 2))
    if row.get("n_eff"):
        size = row["n_eff"]
        share = (row["value"] * size + 1) / (size + 2)
        factor = float(stdtrit(max(row["n"] - 1, 1), 0.5 + LEVEL / 2)) / quantile
        return math.sqrt(share * (1 - share) / size) * factor
    return (high - low) / 2 / quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDesign:
    """Distribution of items over clusters.

    Attributes:
        items: Number of items.
        effective: Effective number of clusters (Kish 1965).
    """

    items: float
    effective: float

    @classmethod
    def from_sizes(cls, sizes: Sequence[int]) -> ClusterDesign:
        """Build the design of clusters with these numbers of items."""
        return cls(items=sum(sizes), effective=kish(np.array(sizes, dtype=np.float64)))

    @property
    def mean_size(self) -> float:
        """Return the size of a random item's cluster: sum of squares over sum."""
        return self.items / self.effective if self.effective else 0.0

    @property
    def df(self) -> float:
        """Return the degrees of freedom of a test on these clusters."""
        return self.effective - 1

    def design_effect(self, icc: float = MIN_ICC) -> float:
        """Return the ratio of the variance to that of as many independent items.

        Args:
            icc: Intraclass correlation; by default the lower bound assumed for finished scores.

        >>> round(ClusterDesign.from_sizes([10] * 20).design_effect(), 2)
        1.45
        """
        return 1 + max(self.mean_size - 1, 0.0) * icc

    def error(self, deviation: float, icc: float = MIN_ICC) -> float:
        """Return the standard error of a mean over the items, from their standard deviation."""
        return deviation * math.sqrt(self.design_effect(icc) / self.items) if self.items else math.nan

    def deviation(self, error: float, icc: float = MIN_ICC) -> float:
        """Return the standard deviation of single items, from the standard error of their mean."""
        return error * math.sqrt(self.items / self.design_effect(icc))

    def detectable(self, deviation: float, icc: float = MIN_ICC) -> float:
        """Return the detectable difference of a mean over these items, see `detectable_difference`."""
        return detectable_difference(self.error(deviation, icc), self.df)

    def required_items(self, difference: float, deviation: float, icc: float = MIN_ICC) -> int | None:
        """Return how many items of the same clusters detect a difference; None if no number of them does.

        Items of one cluster resemble each other, so that ever more of them add ever less.

        >>> ClusterDesign.from_sizes([10] * 20).required_items(0.1, 1.0) is None
        True
        >>> ClusterDesign.from_sizes([10] * 20).required_items(0.3, 1.0)
        122
        """
        target, reach = difference**2, (_detectable_errors(self.df) * deviation) ** 2
        # reach * (1 + (f * size - 1) * icc) / (f * items) = wanted, solved for the factor f.
        slack = target * self.items - reach * self.mean_size * icc
        if not slack > 0:
            return None
        # Those that are each alone in their cluster are independent.
        minimum = min(reach / target, self.effective)
        return math.ceil(max(reach * (1 - icc) / slack * self.items, minimum))

    def required_clusters(self, difference: float, deviation: float, icc: float = MIN_ICC) -> int | None:
        """Return how many clusters of the same size detect a difference; None beyond a million.

        >>> ClusterDesign.from_sizes([10] * 20).required_clusters(0.1, 1.0)
        116
        """
        size, low, high = self.mean_size, 2, _MAX_CLUSTERS

        def shows(clusters: int) -> bool:
            design = ClusterDesign(items=size * clusters, effective=clusters)
            return design.detectable(deviation, icc) <= difference

        if not shows(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if shows(middle) else (middle + 1, high)
        return low
