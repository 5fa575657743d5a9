"""Metrics of predictions (calibration, ranks, R^2), and rank correlations of two numbers over models.

Whether two numbers go together over models is a rank correlation with an interval over lineages. Checkpoints
of one training say much the same, as do a model and its variants with other weights, so a draw takes a
lineage with all its members. Fewer than eight lineages allow no verdict: a draw would hold too few of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from scipy.special import ndtri

from sonde.base.formatting import plural
from sonde.stats.intervals import LEVEL
from sonde.stats.power import POWER


def expected_calibration_error(
    confident: Float[np.ndarray, "replicate bin"],
    correct: Float[np.ndarray, "replicate bin"],
    count: Float[np.ndarray, "replicate bin"],
) -> Float[np.ndarray, " replicate"]:
    """Compute the mean distance of accuracy and confidence over bins, by their counts (Naeini et al. 2015).

    Args:
        confident: Sum of the confidences in each bin.
        correct: Number of correct predictions in each bin.
        count: Number of predictions in each bin.
    """
    return np.abs(correct - confident).sum(axis=1) / count.sum(axis=1)


def equal_mass_bins(count: Float[np.ndarray, " step"], bins: int) -> Int[np.ndarray, " step"]:
    """Join ordered fine steps into bins of about equal counts; a step is never split.

    Returns:
        The bin of each step, from 0, in order.
    """
    lower_count = np.cumsum(count) - count
    centre = (lower_count + count / 2) / max(float(count.sum()), 1.0)
    return np.clip((centre * bins).astype(np.int64), 0, bins - 1)


def spearman(
    x: Float[np.ndarray, "replicate value"], y: Float[np.ndarray, "replicate value"]
) -> Float[np.ndarray, " replicate"]:
    """Compute Spearman's rank correlation of each row, over the entries where both are finite.

    NaN where a row has fewer than three such places or one side does not vary.
    """
    return np.array([_spearman(a, b) for a, b in zip(x, y, strict=True)])


def _spearman(x: Float[np.ndarray, " value"], y: Float[np.ndarray, " value"]) -> float:
    is_finite = np.isfinite(x) & np.isfinite(y)
    if is_finite.sum() < 3:
        return np.nan
    a, b = (average_ranks(values[is_finite]) for values in (x, y))
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else np.nan


def average_ranks(values: Float[np.ndarray, " value"]) -> Float[np.ndarray, " value"]:
    """Return the rank of each value, from 1; equal values share their mean rank.

    >>> average_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    # As `scipy.stats.rankdata`, whose package takes most of a second to import.
    return pl.Series(values).rank("average").to_numpy()


def r_squared(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Compute the share of variance explained, from a number's count, sum and squares and squared errors."""
    count, total, squares, errors = totals.T
    return 1.0 - errors / (squares - total**2 / count)


def r_squared_difference(
    totals: Float[np.ndarray, "replicate total"],
) -> Float[np.ndarray, " replicate"]:
    """Compute how much more of the variance one prediction explains than another; see `r_squared`.

    Args:
        totals: As for `r_squared`, then the squared errors of the other.
    """
    return r_squared(totals[:, :4]) - r_squared(totals[:, [0, 1, 2, 4]])


def weighted_spearman(
    x: Float[np.ndarray, " example"], y: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> float:
    """Compute Pearson's correlation of mid-ranks in a sample that holds each example ``weight`` times."""
    a, b = (_mid_ranks(values, weight) for values in (x, y))
    total = weight.sum()
    a, b = a - (weight @ a) / total, b - (weight @ b) / total
    scale = np.sqrt((weight @ a**2) * (weight @ b**2))
    return float(weight @ (a * b) / scale) if scale > 0 else np.nan


def _mid_ranks(
    values: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> Float[np.ndarray, " example"]:
    _, level = np.unique(values, return_inverse=True)
    level_weights = np.bincount(level, weight)
    return (np.cumsum(level_weights) - level_weights / 2)[level]


MIN_MODELS = 3
"""Models below which there is no correlation."""


MIN_LINEAGES = 8


_DRAWS = 4000


_CHECKPOINT = re.compile(r"(/series)?[/_-]step-?\d+$|/model$|-(int8|random)$")


def get_lineage(model: str) -> str:
    """Return the training run that a model is from, as far as its name says.

    >>> get_lineage("runs/small/series/step64"), get_lineage("runs/small/model")
    ('runs/small', 'runs/small')
    >>> get_lineage("org/m?quantise=8bit"), get_lineage("EleutherAI/pythia-70m@step1000")
    ('org/m', 'EleutherAI/pythia-70m')
    """
    return _CHECKPOINT.sub("", re.split(r"[?@]", model, maxsplit=1)[0].rstrip("/"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """Rank correlation of two numbers over models.

    Attributes:
        value: Spearman's rank correlation; NaN where one of them does not vary.
        low: Lower end of its 95 % interval; NaN where too few lineages allow none.
        high: Upper end.
        models: Number of models that have both numbers.
        lineages: Number of their lineages.
        why: Reason why no verdict is allowed; empty if one is.
        detectable: Correlation that would be found in four of five such samples of lineages.
    """

    value: float
    low: float
    high: float
    models: int
    lineages: int
    why: str
    detectable: float = math.nan


def rank_correlation(
    first: Float[np.ndarray, " model"],
    second: Float[np.ndarray, " model"],
    lineages: Sequence[str],
    *,
    seed: int = 0,
    n_comparisons: int = 1,
) -> Correlation:
    """Compute Spearman's correlation over models, with percentiles of a bootstrap over lineages.

    Args:
        first: First number of each model; NaN where a model has none.
        second: Second number.
        lineages: The lineage of each model.
        seed: Seed of the bootstrap.
        n_comparisons: Number of correlations whose intervals hold at once (Bonferroni).
    """
    is_finite = np.isfinite(first) & np.isfinite(second)
    names = np.asarray(lineages)[is_finite]
    first_values, second_values = first[is_finite], second[is_finite]
    members, lineage_index = np.unique(names, return_inverse=True)
    value = (
        float(spearman(first_values[None], second_values[None])[0])
        if len(first_values) >= MIN_MODELS
        else float("nan")
    )
    low = high = float("nan")
    # Of few lineages a draw holds one or two: what it gives is no interval.
    if np.isfinite(value) and len(members) >= MIN_LINEAGES:
        rng = np.random.default_rng(seed)
        samples = rng.integers(len(members), size=(_DRAWS, len(members)))
        counts = (samples[:, :, None] == np.arange(len(members))).sum(1)
        correlations = _correlate_draws(first_values, second_values, counts[:, lineage_index])
        tail = (1 - LEVEL) / 2 / n_comparisons
        low, high = (float(end) for end in np.nanquantile(correlations, [tail, 1 - tail]))
    reason = "" if np.isfinite(value) else "one number does not vary"
    if len(members) < MIN_LINEAGES:
        reason = f"{plural(len(members), 'lineage')} of models, {MIN_LINEAGES} are needed"
    return Correlation(
        value=value,
        low=low,
        high=high,
        models=len(first_values),
        lineages=len(members),
        why=reason,
        detectable=_detectable_correlation(len(members), n_comparisons),
    )


def _detectable_correlation(lineages: int, n_comparisons: int) -> float:
    """Return the rank correlation that is found in four of five samples (Bonett and Wright 2000, of 0)."""
    if lineages < MIN_LINEAGES:
        return math.nan
    distance = ndtri(1 - (1 - LEVEL) / 2 / n_comparisons) + ndtri(POWER)
    # That of a rank correlation of about 0.5 in Fisher's z: variance (1 + r^2 / 2) / (n - 3).
    return math.tanh(float(distance) * math.sqrt(1.125 / (lineages - 3)))


def _correlate_draws(
    first: Float[np.ndarray, " model"],
    second: Float[np.ndarray, " model"],
    counts: Int[np.ndarray, "draw model"],
) -> Float[np.ndarray, " draw"]:
    """Compute the correlation in each draw, from the counts of models; NaN where a side does not vary."""
    weights = counts.astype(np.float64)
    first_ranks, second_ranks = (_centred_ranks(values, weights) for values in (first, second))
    with np.errstate(invalid="ignore"):
        scale = np.sqrt((weights * first_ranks**2).sum(1) * (weights * second_ranks**2).sum(1))
        return (weights * first_ranks * second_ranks).sum(1) / scale


def _centred_ranks(
    values: Float[np.ndarray, " model"], weights: Float[np.ndarray, "draw model"]
) -> Float[np.ndarray, "draw model"]:
    """Return the mean rank of each model in each draw, less the mean over the draw."""
    is_lower = (values[:, None] < values).astype(np.float64)
    is_equal = (values[:, None] == values).astype(np.float64)
    mean_ranks = weights @ is_lower + (weights @ is_equal + 1) / 2
    return mean_ranks - (weights * mean_ranks).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
