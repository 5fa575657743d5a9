"""Two-sided 95 % intervals from standard errors, for each kind of number.

Unbounded means take Student's t (on the log scale where they are positive), wider where they are skewed;
proportions Korn and Graubard's (1998) interval; other bounded numbers Student's t on a scale without bounds.

The bootstrap-t tells by how much skew widens the interval of a mean beyond Student's t, on either side. The
mean of skewed losses over unequal clusters is correlated with its error: samples that lack the large values
have a small mean and a small error, so that Student's t misses nearly always on one side. Clusters are drawn
with replacement, each draw is studentised by its own error, and the quantiles of the draws are compared with
those of Student's t with as many degrees of freedom as the draws have clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaincinv, expit, logit, stdtr, stdtrit

LEVEL = 0.95


Kind = Literal["real", "nonnegative", "proportion", "unit", "difference", "correlation", "r2"]
"""Kinds of numbers, by their possible values.

``real``: any; ``nonnegative``: bits, nats; ``proportion``: a share of things that are each right or wrong;
``unit``: a mean of what lies between 0 and 1; ``difference``: of two of those; ``correlation``: -1 to 1;
``r2``: at most 1.
"""


DIFFERENCE_OF: Mapping[Kind, Kind] = {
    "nonnegative": "real", "real": "real", "proportion": "difference", "unit": "difference",
    "r2": "real", "correlation": "real",
}  # fmt: skip
"""Kind of the difference of two numbers of a kind."""


GroupValues = Float[np.ndarray, " group"]


class Bounds(NamedTuple):
    """Ends of intervals."""

    low: GroupValues
    high: GroupValues


def student_quantile(df: GroupValues) -> GroupValues:
    """Return Student's quantile of a two-sided 95 % interval; NaN without degrees of freedom.

    Below one degree of freedom (one cluster holds most of the weight) it runs off to thousands of standard
    errors, so there is none.
    """
    return stdtrit(np.where(df >= 1, df, np.nan), 0.5 + LEVEL / 2)


def student_interval(
    value: GroupValues,
    error: GroupValues,
    df: GroupValues,
    kind: Kind = "real",
    width_factor: Bounds | None = None,
) -> Bounds:
    """Compute Student's t interval, on a scale of its kind where the number is bounded.

    Args:
        value: The estimates.
        error: Standard errors on the numbers' own scale (carried over to the other scale by the delta
            method), see `student_interval_on_scale` for errors that were found there.
        df: Degrees of freedom; no interval below 1.
        kind: Kind of the numbers. A value at the very end of its bounds has no such interval: NaN.
        width_factor: Factors of the half-widths of unbounded numbers; 1 by default.
    """
    half_width = student_quantile(df) * error
    if width_factor is not None and kind in ("real", "nonnegative"):
        lower_width, upper_width = half_width * width_factor.low, half_width * width_factor.high
    else:
        lower_width = upper_width = half_width
    if kind == "nonnegative":
        return _on_log_scale(value, lower_width, upper_width)
    if kind == "r2":
        return Bounds(value - half_width, np.minimum(value + half_width, 1.0))
    if kind == "real":
        return Bounds(value - lower_width, value + upper_width)
    with np.errstate(divide="ignore", invalid="ignore"):
        return student_interval_on_scale(value, error / _slope(value, kind), df, kind)


def _on_log_scale(value: GroupValues, lower_width: GroupValues, upper_width: GroupValues) -> Bounds:
    """Return the ends for positive numbers, from half-widths carried over to the log scale (delta method).

    An upper half-width beyond the number itself, which a few clusters give, is lengthened in proportion: the
    exponential would run off.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, ratio = value * np.exp(-lower_width / value), upper_width / value
        high = value * np.minimum(np.exp(ratio), 1 + np.expm1(1.0) * ratio)
    return Bounds(np.where(value > 0, low, 0.0), np.where(value > 0, high, upper_width))


def student_interval_on_scale(value: GroupValues, error: GroupValues, df: GroupValues, kind: Kind) -> Bounds:
    """Compute Student's t interval on the scale without bounds (Fisher's z, or logit), carried back.

    Args:
        value: The estimates, on their own scale.
        error: Standard errors on the scale without bounds.
        df: Degrees of freedom.
        kind: ``unit`` or ``proportion`` (logit), ``difference`` or ``correlation`` (Fisher's z).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        centre, half_width = to_scale(value, kind), student_quantile(df) * error
        low, high = from_scale(centre - half_width, kind), from_scale(centre + half_width, kind)
    is_finite = np.isfinite(centre) & np.isfinite(half_width)
    return Bounds(np.where(is_finite, low, np.nan), np.where(is_finite, high, np.nan))


def move_to_level(
    value: GroupValues, bounds: Bounds, df: GroupValues, kind: Kind, tail: float | GroupValues
) -> Bounds:
    """Return the ends of intervals beyond which each side has the probability `tail`, from 95 % intervals.

    Args:
        value: The estimates.
        bounds: Their 95 % intervals, by Student's t on the scale of the kind.
        df: Degrees of freedom.
        kind: ``real``, ``difference`` or ``correlation``.
        tail: Probability on either side; 0.025 gives `bounds` back.
    """
    freedom = np.where(df >= 1, df, np.nan)
    ratio = stdtrit(freedom, 1 - np.asarray(tail)) / student_quantile(df)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = to_scale(value, kind)
        low, high = (from_scale(centre + (to_scale(end, kind) - centre) * ratio, kind) for end in bounds)
    return Bounds(low, high)


def to_scale(value: Float[np.ndarray, " *any"], kind: Kind) -> Float[np.ndarray, " *any"]:
    """Transform a bounded number to a scale without bounds; others stay as they are."""
    if kind in ("difference", "correlation"):
        return np.arctanh(value)
    return logit(value) if kind in ("unit", "proportion") else value


def from_scale(value: Float[np.ndarray, " *any"], kind: Kind) -> Float[np.ndarray, " *any"]:
    """Invert `to_scale`."""
    if kind in ("difference", "correlation"):
        return np.tanh(value)
    return expit(value) if kind in ("unit", "proportion") else value


def korn_graubard(value: GroupValues, n_eff: GroupValues) -> Bounds:
    """Compute Clopper and Pearson's interval of a share of ``n_eff`` independent observations.

    Korn and Graubard (1998): never outside 0 and 1, never of zero width; fractions of one are allowed.
    """
    right = value * n_eff
    tail = (1 - LEVEL) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(right <= 0, 0.0, betaincinv(np.maximum(right, 1e-12), n_eff - right + 1, tail))
        wrong = n_eff - right
        high = np.where(wrong <= 0, 1.0, betaincinv(right + 1, np.maximum(wrong, 1e-12), 1 - tail))
    is_finite = np.isfinite(n_eff) & np.isfinite(value)
    return Bounds(np.where(is_finite, low, np.nan), np.where(is_finite, high, np.nan))


def effective_size(
    value: GroupValues,
    variance: GroupValues,
    n: GroupValues,
    df: GroupValues,
    mean_size: GroupValues,
    icc: GroupValues,
) -> GroupValues:
    """Return the effective sample size of clustered observations (Korn and Graubard 1998).

    Args:
        value: Shares.
        variance: Their clustered variances.
        n: Observations.
        df: Degrees of freedom.
        mean_size: Size of a random observation's cluster, see `sonde.stats.estimate.ClusterSums.mean_size`.
        icc: Lower bound of the intraclass correlation, see `sonde.stats.estimate.minimum_icc`.

    Returns:
        At most ``n``; NaN without degrees of freedom. The design effect is never below that of the least
        intraclass correlation, which also stands in where all are right or wrong and no variance is seen.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        design_effect = np.nan_to_num(variance * n / (value * (1 - value)), nan=0.0, posinf=0.0)
        minimum_design_effect = 1 + np.maximum(mean_size - 1, 0.0) * icc
        ratio = stdtrit(np.maximum(n - 1, 1.0), 0.5 + LEVEL / 2) / student_quantile(df)
        return np.minimum(n, n / np.maximum(design_effect, minimum_design_effect) * ratio**2)


def two_sided_p(value: GroupValues, error: GroupValues, df: GroupValues, kind: Kind) -> GroupValues:
    """Return p-values of "the value is 0" by the test that inverts `student_interval`; NaN without one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled_error = error if kind in ("real", "nonnegative", "r2") else error / _slope(value, kind)
        freedom = np.where(df >= 1, df, np.nan)
        return 2 * stdtr(freedom, -np.abs(to_scale(value, kind) / scaled_error))


def _slope(value: GroupValues, kind: Kind) -> GroupValues:
    """Return the derivative of a bounded number by its scale without bounds."""
    return 1 - value**2 if kind in ("difference", "correlation") else value * (1 - value)


SKEWED_KINDS: frozenset[Kind] = frozenset(("real", "nonnegative"))
"""Kinds whose intervals are made wider: means of what has no bounds."""


BOOTSTRAP_T = ", bootstrap-t"
"""Suffix of method names."""


_DRAWS = 999


_LOWEST = round((1 - LEVEL) / 2 * (_DRAWS + 1)) - 1


_HIGHEST = _DRAWS - 1 - _LOWEST


_CELLS = 1_000_000
"""Counts of draws that are held at once; where all fit, they are kept for the next groups."""


_GROUPS_PER_BATCH = 1000
"""Groups whose draws are held at once, likewise."""


_NO_SPREAD = 1e-9
"""Share of its sum of squares below which the variance of a draw is rounding."""


_DECIMALS = 6
"""Digits behind the point of a factor: which other groups are worked on beside it changes the last bits."""


def bootstrap_t_factors(
    group: Int[np.ndarray, " row"], influences: Float[np.ndarray, " row"], value: GroupValues, kind: Kind
) -> Bounds:
    """Compute factors, at least 1, of Student's half-widths below and above (bootstrap-t).

    The draws depend on the number of clusters alone and are laid on them by what they do, in order, so that
    neither their order nor their names matter; a difference turned round has its interval turned round.

    Args:
        group: Group of each cluster, from 0; clusters without observations are omitted.
        influences: Influence of each cluster: the number of its group with it less the number without it.
        value: Number of each group.
        kind: ``nonnegative``: on the log scale; ``real``: as it is; of other kinds the factors are 1.
    """
    if kind not in SKEWED_KINDS:
        return Bounds(np.ones(len(value)), np.ones(len(value)))
    log = kind == "nonnegative"
    factors = np.ones((2, len(value)))
    sizes = np.bincount(group, minlength=len(value))
    sorted_influences = influences[np.argsort(group, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    # Where one cluster holds all of the weight, nothing is left without it.
    is_finite = np.isfinite(np.bincount(group, np.abs(influences), minlength=len(value)))
    usable = np.flatnonzero(is_finite & (sizes > 2) & ((value > 0) | (not log)))
    usable = usable[np.argsort(sizes[usable], kind="stable")]
    for first in range(0, len(usable), _GROUPS_PER_BATCH):
        batch = usable[first : first + _GROUPS_PER_BATCH]
        largest = int(sizes[batch[-1]])
        memory = np.empty(min(_DRAWS * largest, max(_CELLS, largest)))
        sums, signs = np.empty((2, len(batch), _DRAWS)), np.empty(len(batch))
        batch_sizes, begins = np.unique(sizes[batch], return_index=True)
        for size, part in zip(batch_sizes.tolist(), np.split(np.arange(len(batch)), begins[1:]), strict=True):
            rows = sorted_influences[starts[batch[part]][:, None] + np.arange(size)]
            rows, signs[part] = _standardise_rows(rows, value[batch[part]] if log else None)
            for draws, counts in _iterate_draw_counts(size):
                # Into memory that is there already: new memory for each number of clusters takes longest.
                float_counts = memory[: counts.size].reshape(counts.shape)
                np.copyto(float_counts, counts)
                sums[0, part, draws], sums[1, part, draws] = rows @ float_counts, rows**2 @ float_counts
        statistics = _studentise(sums[0], sums[1], sizes[batch], log=log)
        statistics.sort(axis=1)  # Faster than `numpy.partition` at two places.
        ends = np.stack([statistics[:, _HIGHEST], -statistics[:, _LOWEST]]) / stdtrit(
            sizes[batch] - 1, 0.5 + LEVEL / 2
        )
        ends = np.where(signs < 0, ends[::-1], np.where(signs == 0, ends.max(axis=0), ends))
        factors[:, batch] = np.maximum(ends, 1.0)
    return Bounds(*factors.round(_DECIMALS))


def _standardise_rows(
    rows: Float[np.ndarray, "group cluster"], values: GroupValues | None
) -> tuple[Float[np.ndarray, "group cluster"], GroupValues]:
    """Centre rows and divide them by their value, or else by their spread; return them with the sign of each.

    Without a value the longer tail is turned upwards; the sign is 0 where neither is longer.
    """
    rows = rows - rows.mean(axis=1, keepdims=True)
    scale = np.sqrt((rows**2).sum(axis=1)) if values is None else values
    rows /= np.where(scale > 0, scale, 1.0)[:, None]
    signs = np.ones(len(rows))
    if values is None:
        skew = (rows**3).sum(axis=1)
        signs = np.where(np.abs(skew) > _NO_SPREAD, np.sign(skew), 0.0)
        rows *= np.where(signs < 0, -1.0, 1.0)[:, None]
    return np.sort(rows, axis=1), signs


def _studentise(
    total: Float[np.ndarray, "group draw"],
    squares: Float[np.ndarray, "group draw"],
    sizes: Int[np.ndarray, " group"],
    *,
    log: bool,
) -> Float[np.ndarray, "group draw"]:
    """Divide each draw's distance from the estimate by its own error; 0 where it shows no spread."""
    size = sizes[:, None]
    variance = (squares - total**2 / size) * (size / (size - 1))
    variance[variance <= _NO_SPREAD * squares] = np.inf
    if log:
        # A draw without the losses of the largest cluster can have none left.
        left = np.maximum(1 + total, _NO_SPREAD)
        total = np.log(left) * left
    return total / np.sqrt(variance)


def _iterate_draw_counts(size: int) -> Iterator[tuple[slice, Int[np.ndarray, "cluster draw"]]]:
    """Yield how often each draw holds each cluster, in parts that fit into memory."""
    if size * _DRAWS <= _CELLS:
        yield slice(_DRAWS), _cached_draw_counts(size)
        return
    rng = np.random.default_rng(size)
    for start in range(0, _DRAWS, step := max(_CELLS // size, 1)):
        draws = slice(start, min(start + step, _DRAWS))
        yield draws, _sample_draw_counts(size, draws.stop - start, rng)


@lru_cache(maxsize=256)
def _cached_draw_counts(size: int) -> Int[np.ndarray, "cluster draw"]:
    # No draw holds a cluster so often that a byte is too small.
    return _sample_draw_counts(size, _DRAWS, np.random.default_rng(size)).astype(np.uint8)


def _sample_draw_counts(size: int, draws: int, rng: np.random.Generator) -> Int[np.ndarray, "cluster draw"]:
    cells = rng.integers(size, size=(size, draws)) * draws + np.arange(draws)
    return np.bincount(cells.ravel(), minlength=size * draws).reshape(size, draws)
