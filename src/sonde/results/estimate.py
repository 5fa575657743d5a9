"""The one estimator of all lenses: a number from clustered observations, with its two-sided 95 % interval.

What is estimated decides the interval (`Kind`), and nothing else does:

- means of bits and nats: delete-one-cluster jackknife around the ratio of sums (the CR3 sandwich of Bell and
  McCaffrey 2002), Student's t with the effective clusters less one, on the log scale where they are positive,
  and on either side as wide as the bootstrap-t by cluster where skew asks for more (`sonde.results.skewed`);
- proportions: Korn and Graubard (1998), with a least design effect;
- differences of proportions: per-example differences, on Fisher's scale, with a least variance;
- other bounded statistics: the jackknife on Fisher's scale (correlations) or the logit scale (means of what
  lies between 0 and 1); R^2 as it is, cut at 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from sonde.results.clusters import LEAST_ICC, ClusterSums, kish, least_icc
from sonde.results.intervals import (
    Bounds,
    Column,
    Kind,
    effective_size,
    korn_graubard,
    student,
    student_on_scale,
    to_scale,
    two_sided_p,
)
from sonde.results.skewed import BOOTSTRAP_T, SKEWED, widening

VERSION = "4"
"""Raised when an interval changes; part of the key of every scored table."""

JACKKNIFE = "clustered jackknife"
KORN_GRAUBARD = "Korn-Graubard"

_NO_ERROR = 1e-12
"""A standard error that is rounding alone: no variance was seen."""

SCALES: dict[Kind, str] = {
    "unit": ", logit", "difference": ", Fisher's z", "correlation": ", Fisher's z",
    "nonnegative": ", log",
}  # fmt: skip
"""What the name of a method says of the scale."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """Numbers with their intervals, one entry a group.

    Attributes:
        value: The estimate; NaN where a group has no weight.
        low: Lower end; NaN where fewer than two effective clusters speak.
        high: Upper end; NaN likewise.
        n_clusters: Clusters with any weight.
        effective: Effective clusters (`kish`).
        n_eff: Independent observations that a proportion's are worth; NaN for other kinds.
        df: Degrees of freedom of the interval.
        error: Standard error, on the number's own scale.
        p_value: Of "the value is 0", for differences and correlations; NaN for other kinds.
        wider: Factors of Student's half-widths below and above, see `sonde.results.skewed.widening`.
        method: Name of the interval's method.
    """

    value: Column
    low: Column
    high: Column
    n_clusters: Int[np.ndarray, " group"]
    effective: Column
    n_eff: Column
    df: Column
    error: Column
    p_value: Column
    wider: Bounds
    method: str

    @property
    def facing_zero(self) -> Column:
        """The factors of the ends that face 0, by which a test against 0 widens the standard errors."""
        return np.where(self.value > 0, self.wider.low, self.wider.high)


def ratios(sums: ClusterSums, kind: Kind, *, squares: Column | None = None) -> Estimates:
    """Ratios of sums, for all groups at once.

    Args:
        sums: Each pair of group and cluster at most once. For a proportion ``x`` counts what is right and
            ``w`` all observations; its groups are the rows of one metric, whose intraclass correlation is
            pooled.
        kind: What the ratio is.
        squares: Of a mean of paired differences of 0/1 (``difference``), the sum of their squares: the pairs
            that differ.
    """
    value, deviations = _left_out(sums)
    variance = jackknife_variance(sums.total(deviations**2), sums.counted)
    if squares is not None:
        variance = np.maximum(variance, least_paired_variance(value, squares, sums.total(sums.w)))
    held = (sums.w != 0) | (sums.x != 0)
    return estimated(
        value,
        variance,
        sums.counted,
        sums.effective,
        kind,
        n=sums.total(sums.w),
        mean_size=sums.mean_size,
        icc=least_icc(sums),
        method=JACKKNIFE if squares is None else f"paired {JACKKNIFE}",
        wider=widening(sums.group[held], deviations[held], value, kind),
    )


def differences(
    first: ClusterSums,
    second: ClusterSums,
    kind: Kind,
    *,
    discordant: Column | None = None,
) -> Estimates:
    """Differences ``first - second`` of ratios whose groups share clusters, group by group.

    A cluster that both sides hold is left out of both at once, so what it does to both alike cancels.

    Args:
        first: One side.
        second: The other side.
        kind: ``difference`` for two proportions or two numbers between 0 and 1, ``real`` for others.
        discordant: For a paired difference of proportions, the observations that the sides tell apart;
            without it the sides are taken as different observations.
    """
    n_groups = first.n_groups
    (one, left), (two, right) = _left_out(first), _left_out(second)
    group = np.concatenate([first.group, second.group]).astype(np.int64)
    cluster = np.concatenate([first.cluster, second.cluster])
    width = int(cluster.max(initial=0)) + 1
    pairs, inverse = np.unique(group * width + cluster, return_inverse=True)
    joint = np.bincount(inverse, np.concatenate([left, -right]), minlength=len(pairs))
    owner = pairs // width
    n_clusters = np.bincount(owner, minlength=n_groups)
    variance = jackknife_variance(np.bincount(owner, joint**2, minlength=n_groups), n_clusters)
    effective = np.minimum(first.effective, second.effective)
    value = one - two
    n_one, n_two = first.total(first.w), second.total(second.w)
    if kind == "difference":
        if discordant is not None:
            least = least_paired_variance(value, discordant, n_one)
        else:
            least = _smoothed(one, n_one) + _smoothed(two, n_two)
        variance = np.maximum(variance, least)
    return estimated(
        value,
        variance,
        n_clusters,
        effective,
        kind,
        n=np.minimum(n_one, n_two),
        mean_size=np.maximum(first.mean_size, second.mean_size),
        icc=np.maximum(least_icc(first), least_icc(second)),
        method=f"paired {JACKKNIFE}" if discordant is not None else JACKKNIFE,
        wider=widening(owner, joint, value, kind),
    )


Statistic = Callable[[Float[np.ndarray, "replicate total"]], Float[np.ndarray, " replicate"]]


def jackknife(
    statistic: Statistic,
    sums: Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    kind: Kind,
) -> Estimates:
    """A smooth function of totals, by leaving out one cluster at a time.

    Args:
        statistic: From rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        weight: Observations in each cluster.
        kind: What the number is; the deviations are taken on its scale without bounds.

    Returns:
        One group.
    """
    total = sums.sum(axis=0, keepdims=True)
    value = statistic(total)
    without = statistic(total - sums)
    present = (sums != 0).any(axis=1)
    n_clusters = np.array([int(present.sum())])
    variance = jackknife_variance(((without[present] - value) ** 2).sum(keepdims=True), n_clusters)
    size = np.array([weight.sum()])
    if kind == "difference":
        # So many observations at least were told apart.
        variance = np.maximum(variance, least_paired_variance(value, np.abs(value) * size, size))
    effective = np.array([kish(weight)])
    found = estimated(
        value,
        variance,
        n_clusters,
        effective,
        kind,
        n=size,
        mean_size=(weight**2).sum() / np.maximum(size, 1.0),
        icc=np.full(1, LEAST_ICC),
        wider=widening(np.zeros(int(n_clusters[0]), dtype=np.int64), (value - without)[present], value, kind),
    )
    if kind not in ("correlation", "unit") or not (found.error > _NO_ERROR).all():
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = to_scale(without[present], kind) - to_scale(value, kind)
        on_scale = np.sqrt(jackknife_variance((moved**2).sum(keepdims=True), n_clusters))
    if not np.isfinite(on_scale).all():
        return found
    bounds = student_on_scale(value, on_scale, found.df, kind)
    return dataclasses.replace(found, low=bounds.low, high=bounds.high)


def left_out_one(
    statistic: Statistic, sums: Float[np.ndarray, "cluster total"]
) -> Float[np.ndarray, " cluster"]:
    """By how much a function of totals changes when each cluster is left out; 0 for clusters without sums."""
    total = sums.sum(axis=0, keepdims=True)
    present = (sums != 0).any(axis=1)
    return np.where(present, statistic(total - sums) - statistic(total), 0.0)


def least_paired_variance(value: Column, discordant: Column, n: Column) -> Column:
    """Variance that a mean of paired differences of 0/1 has at least, with one discordant pair added.

    That of independent pairs, ((discordant + 1) / n - d^2) / n: with no pair, or few, told apart in the
    sample, the sample's own variance is far too small.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum((discordant + 1) / n - value**2, 0.0) / n


def _smoothed(value: Column, n: Column) -> Column:
    """Variance of a proportion of independent observations, with one success and one failure added."""
    share = (value * n + 1) / (n + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return share * (1 - share) / n


def estimated(
    value: Column,
    variance: Column,
    n_clusters: Int[np.ndarray, " group"],
    effective: Column,
    kind: Kind,
    *,
    n: Column,
    mean_size: Column,
    icc: Column,
    method: str = JACKKNIFE,
    df: Column | None = None,
    wider: Bounds | None = None,
) -> Estimates:
    """The interval that belongs to the kind, from values and their variances.

    Args:
        value: The estimates.
        variance: Their clustered variances, the training noise of seeds included where there is any.
        n_clusters: Clusters with any weight.
        effective: Effective clusters.
        kind: What the numbers are.
        n: Observations, for the effective size of proportions.
        mean_size: Size of the cluster that a random observation stands in, see `ClusterSums.mean_size`.
        icc: Least intraclass correlation of the groups.
        method: Name of what gave the variance.
        df: Degrees of freedom; effective clusters less one where not given.
        wider: See `Estimates.wider`; none where not given.
    """
    wider = wider or Bounds(np.ones(len(value)), np.ones(len(value)))
    df = np.where(n_clusters > 1, effective - 1, np.nan) if df is None else df
    error = np.sqrt(variance)
    nothing = np.full(len(value), np.nan)
    n_eff = p_value = nothing
    if kind in ("proportion", "unit", "difference"):
        share = np.abs(value) if kind == "difference" else value
        n_eff = effective_size(share, variance, n, df, mean_size, icc)
    if kind == "proportion":
        bounds, method = korn_graubard(value, n_eff), KORN_GRAUBARD
    else:
        bounds = student(value, error, df, kind, wider)
        method += SCALES.get(kind, "") + (BOOTSTRAP_T if kind in SKEWED else "")
    if kind == "unit":
        # At the ends, and where no variance is seen, the logit says nothing: as if all were right or wrong.
        ends = (value <= 0) | (value >= 1) | (error <= _NO_ERROR)
        bounds = _where(ends, korn_graubard(value, n_eff), bounds)
    if kind in ("difference", "correlation"):
        p_value = two_sided_p(value, error, df, kind)
    if kind == "difference":
        bounds, p_value = _all_one_way(value, n_eff, bounds, p_value)
    return Estimates(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n_clusters=n_clusters,
        effective=effective,
        n_eff=n_eff if kind == "proportion" else nothing,
        df=df,
        error=error,
        p_value=p_value,
        wider=wider,
        method=method,
    )


def _all_one_way(value: Column, n_eff: Column, bounds: Bounds, p_value: Column) -> tuple[Bounds, Column]:
    """Where every pair falls one way (|d| = 1) no scale serves: the sign test of ``n_eff`` pairs."""
    ends = np.abs(value) >= 1
    if not ends.any():
        return bounds, p_value
    least = 2 * korn_graubard(np.ones(len(value)), n_eff).low - 1
    low = np.where(value > 0, least, -1.0)
    high = np.where(value > 0, 1.0, -least)
    known = np.isfinite(n_eff)
    both = Bounds(np.where(known, low, np.nan), np.where(known, high, np.nan))
    return _where(ends, both, bounds), np.where(ends, np.minimum(2 * 0.5**n_eff, 1.0), p_value)


def _where(chosen: Bool[np.ndarray, " group"], these: Bounds, others: Bounds) -> Bounds:
    return Bounds(np.where(chosen, these.low, others.low), np.where(chosen, these.high, others.high))


def _left_out(sums: ClusterSums) -> tuple[Column, Float[np.ndarray, " row"]]:
    """Each group's ratio, and how far it moves when a cluster is left out (0 for those without weight).

    Deviations are taken around the estimate, which is at least as wide as around their mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.total(sums.x) / sums.total(sums.w)
        rest = sums.total(sums.w)[sums.group] - sums.w
        moved = (sums.x - value[sums.group] * sums.w) / rest
    return value, np.where((sums.w == 0) & (sums.x == 0), 0.0, moved)


def jackknife_variance(squares: Column, n_clusters: Int[np.ndarray, " group"]) -> Column:
    """Variance from summed squares of how far numbers move without each cluster; NaN for one cluster."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n_clusters > 1, squares * (n_clusters - 1) / n_clusters, np.nan)
