"""Two-sided 95 % intervals of numbers whose standard error is known, for each kind of number there is.

Which formula belongs to which number: means of what has no bounds take Student's t (on the log scale where
they are positive), wider where they are skewed; proportions Korn and
Graubard's (1998) interval; whatever else is bounded takes Student's t on a scale without bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, expit, logit, stdtr, stdtrit

LEVEL = 0.95

Kind = Literal["real", "nonnegative", "proportion", "unit", "difference", "correlation", "r2"]
"""What values a number can take.

``real``: any; ``nonnegative``: bits, nats; ``proportion``: a share of things that are each right or wrong;
``unit``: a mean of what lies between 0 and 1; ``difference``: of two of those; ``correlation``: -1 to 1;
``r2``: at most 1.
"""

DIFFERENCE_OF: Mapping[Kind, Kind] = {
    "nonnegative": "real", "real": "real", "proportion": "difference", "unit": "difference",
    "r2": "real", "correlation": "real",
}  # fmt: skip
"""What the difference of two numbers of a kind is."""

Column = Float[np.ndarray, " group"]


class Bounds(NamedTuple):
    """Ends of intervals."""

    low: Column
    high: Column


def quantile(df: Column) -> Column:
    """Student's quantile of a two-sided 95 % interval; NaN without degrees of freedom.

    Below one degree of freedom (one cluster holds most of the weight) it runs off to thousands of standard
    errors, so there is none.
    """
    return stdtrit(np.where(df >= 1, df, np.nan), 0.5 + LEVEL / 2)


def student(
    value: Column, error: Column, df: Column, kind: Kind = "real", wider: Bounds | None = None
) -> Bounds:
    """Student's t around the value, on a scale of its kind where it has bounds.

    Args:
        value: The estimates.
        error: Standard errors on the numbers' own scale (carried over to the other scale by the delta
            method), see `student_on_scale` for errors that were found there.
        df: Degrees of freedom; no interval below 1.
        kind: Of the numbers. A value at the very end of its bounds has no such interval: NaN.
        wider: Factors of the half-widths of what has no bounds; none where not given.
    """
    half = quantile(df) * error
    if wider is not None and kind in ("real", "nonnegative"):
        below, above = half * wider.low, half * wider.high
    else:
        below = above = half
    if kind == "nonnegative":
        return _on_log_scale(value, below, above)
    if kind == "r2":
        return Bounds(value - half, np.minimum(value + half, 1.0))
    if kind == "real":
        return Bounds(value - below, value + above)
    with np.errstate(divide="ignore", invalid="ignore"):
        return student_on_scale(value, error / _slope(value, kind), df, kind)


def _on_log_scale(value: Column, below: Column, above: Column) -> Bounds:
    """Ends of positive numbers, from half-widths that the delta method carries over to the log scale.

    An upper half-width beyond the number itself, which a few clusters give, is lengthened in proportion: the
    exponential would run off.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, up = value * np.exp(-below / value), above / value
        high = value * np.minimum(np.exp(up), 1 + np.expm1(1.0) * up)
    return Bounds(np.where(value > 0, low, 0.0), np.where(value > 0, high, above))


def student_on_scale(value: Column, error: Column, df: Column, kind: Kind) -> Bounds:
    """Student's t on the scale without bounds (Fisher's z, or logit), carried back.

    Args:
        value: The estimates, on their own scale.
        error: Standard errors on the scale without bounds.
        df: Degrees of freedom.
        kind: ``unit`` or ``proportion`` (logit), ``difference`` or ``correlation`` (Fisher's z).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        centre, half = to_scale(value, kind), quantile(df) * error
        low, high = from_scale(centre - half, kind), from_scale(centre + half, kind)
    known = np.isfinite(centre) & np.isfinite(half)
    return Bounds(np.where(known, low, np.nan), np.where(known, high, np.nan))


def to_scale(value: Float[np.ndarray, " *any"], kind: Kind) -> Float[np.ndarray, " *any"]:
    """A bounded number on a scale without bounds; others as they are."""
    if kind in ("difference", "correlation"):
        return np.arctanh(value)
    return logit(value) if kind in ("unit", "proportion") else value


def from_scale(value: Float[np.ndarray, " *any"], kind: Kind) -> Float[np.ndarray, " *any"]:
    """Back from `to_scale`."""
    if kind in ("difference", "correlation"):
        return np.tanh(value)
    return expit(value) if kind in ("unit", "proportion") else value


def korn_graubard(value: Column, n_eff: Column) -> Bounds:
    """Clopper and Pearson's interval of a share of ``n_eff`` independent observations.

    Korn and Graubard (1998): never outside 0 and 1, never of zero width; fractions of one are allowed.
    """
    right = value * n_eff
    tail = (1 - LEVEL) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(right <= 0, 0.0, betaincinv(np.maximum(right, 1e-12), n_eff - right + 1, tail))
        wrong = n_eff - right
        high = np.where(wrong <= 0, 1.0, betaincinv(right + 1, np.maximum(wrong, 1e-12), 1 - tail))
    known = np.isfinite(n_eff) & np.isfinite(value)
    return Bounds(np.where(known, low, np.nan), np.where(known, high, np.nan))


def effective_size(
    value: Column, variance: Column, n: Column, df: Column, mean_size: Column, icc: Column
) -> Column:
    """How many independent observations the clustered ones are worth (Korn and Graubard 1998).

    Args:
        value: Shares.
        variance: Their clustered variances.
        n: Observations.
        df: Degrees of freedom.
        mean_size: Size of the cluster that a random observation stands in, see `ClusterSums.mean_size`.
        icc: Least intraclass correlation, see `results.clusters.least_icc`.

    Returns:
        At most ``n``; NaN without degrees of freedom. The design effect is never below that of the least
        intraclass correlation, which also stands in where all are right or wrong and no variance is seen.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.nan_to_num(variance * n / (value * (1 - value)), nan=0.0, posinf=0.0)
        least = 1 + np.maximum(mean_size - 1, 0.0) * icc
        ratio = stdtrit(np.maximum(n - 1, 1.0), 0.5 + LEVEL / 2) / quantile(df)
        return np.minimum(n, n / np.maximum(seen, least) * ratio**2)


def two_sided_p(value: Column, error: Column, df: Column, kind: Kind) -> Column:
    """P-values of "the value is 0" by the test that the interval of `student` inverts; NaN without one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = error if kind in ("real", "nonnegative", "r2") else error / _slope(value, kind)
        freedom = np.where(df >= 1, df, np.nan)
        return 2 * stdtr(freedom, -np.abs(to_scale(value, kind) / scaled))


def _slope(value: Column, kind: Kind) -> Column:
    """How much a bounded number moves for a small step on its scale without bounds."""
    return 1 - value**2 if kind in ("difference", "correlation") else value * (1 - value)
