"""Pure measures of predictions: calibration and rank correlation."""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Float, Int


def expected_calibration_error(
    confident: Float[np.ndarray, "replicate bin"],
    correct: Float[np.ndarray, "replicate bin"],
    count: Float[np.ndarray, "replicate bin"],
) -> Float[np.ndarray, " replicate"]:
    """Mean distance of accuracy and confidence over bins, by their counts (Naeini et al. 2015).

    Args:
        confident: Sum of the confidences in each bin.
        correct: Number of correct predictions.
        count: Number of predictions.
    """
    return np.abs(correct - confident).sum(axis=1) / count.sum(axis=1)


def equal_mass_bins(count: Float[np.ndarray, " step"], bins: int) -> Int[np.ndarray, " step"]:
    """Join ordered fine steps into bins of about equal counts; a step is never parted.

    Returns:
        The bin of each step, from 0, in order.
    """
    before = np.cumsum(count) - count
    centre = (before + count / 2) / max(float(count.sum()), 1.0)
    return np.clip((centre * bins).astype(np.int64), 0, bins - 1)


def spearman(
    x: Float[np.ndarray, "replicate value"], y: Float[np.ndarray, "replicate value"]
) -> Float[np.ndarray, " replicate"]:
    """Spearman's rank correlation of each row, over the places where both are finite.

    NaN where a row has fewer than three such places or one side does not vary.
    """
    return np.array([_spearman(a, b) for a, b in zip(x, y, strict=True)])


def _spearman(x: Float[np.ndarray, " value"], y: Float[np.ndarray, " value"]) -> float:
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 3:
        return np.nan
    a, b = (ranks(values[both]) for values in (x, y))
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else np.nan


def ranks(values: Float[np.ndarray, " value"]) -> Float[np.ndarray, " value"]:
    """The rank of each value from 1 on; equal ones share their mean rank.

    >>> ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    # As `scipy.stats.rankdata`, whose package takes most of a second to import.
    return pl.Series(values).rank("average").to_numpy()


def r_squared(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Share of the variance explained, from the count, sum and squares of a number and its squared errors."""
    count, total, squares, errors = totals.T
    return 1.0 - errors / (squares - total**2 / count)


def r_squared_difference(
    totals: Float[np.ndarray, "replicate total"],
) -> Float[np.ndarray, " replicate"]:
    """Return how much more of the variance one prediction explains than another; see `r_squared`.

    Args:
        totals: As for `r_squared`, then the squared errors of the other.
    """
    return r_squared(totals[:, :4]) - r_squared(totals[:, [0, 1, 2, 4]])


def weighted_spearman(
    x: Float[np.ndarray, " example"], y: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> float:
    """Pearson's correlation of mid-ranks in a sample that holds each example ``weight`` times."""
    a, b = (_mid_ranks(values, weight) for values in (x, y))
    total = weight.sum()
    a, b = a - (weight @ a) / total, b - (weight @ b) / total
    scale = np.sqrt((weight @ a**2) * (weight @ b**2))
    return float(weight @ (a * b) / scale) if scale > 0 else np.nan


def _mid_ranks(
    values: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> Float[np.ndarray, " example"]:
    _, level = np.unique(values, return_inverse=True)
    held = np.bincount(level, weight)
    return (np.cumsum(held) - held / 2)[level]
