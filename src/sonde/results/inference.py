"""Intervals and comparisons for numbers whose observations come in clusters.

Tokens of one project resemble each other, so projects are the independent units here, never tokens. All
intervals are two-sided at 95 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse
from scipy.special import stdtr, stdtrit

LEVEL = 0.95
TOO_FEW = "too few clusters"
ENOUGH_CLUSTERS = 10

_ALL_SIGNS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Numbers with their intervals, one entry a group.

    Attributes:
        value: The estimate; NaN where a group has no weight.
        low: Lower end; NaN where fewer than two clusters speak.
        high: Upper end; NaN likewise.
        n_clusters: Clusters with any weight.
        effective: Clusters of equal size that would be worth as much (Kish 1965): (sum w)^2 / sum w^2.
    """

    value: Float[np.ndarray, " group"]
    low: Float[np.ndarray, " group"]
    high: Float[np.ndarray, " group"]
    n_clusters: Int[np.ndarray, " group"]
    effective: Float[np.ndarray, " group"]

    @property
    def too_few(self) -> Bool[np.ndarray, " group"]:
        """Where there are fewer than ten effective clusters, so that no verdict should be drawn."""
        return self.effective < ENOUGH_CLUSTERS


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSums:
    """Sums of a group's observations in each cluster, in long format: one row a group and cluster.

    Attributes:
        group: Which group, from 0.
        cluster: Which cluster, from 0; the same number is the same cluster in every group.
        x: Sum of the numerator.
        w: Sum of the denominator: a count, or bytes.
        n_groups: Number of groups.
    """

    group: Int[np.ndarray, " row"]
    cluster: Int[np.ndarray, " row"]
    x: Float[np.ndarray, " row"]
    w: Float[np.ndarray, " row"]
    n_groups: int

    def total(self, values: Float[np.ndarray, " row"]) -> Float[np.ndarray, " group"]:
        """Sum a column over the clusters of each group."""
        return np.bincount(self.group, values, minlength=self.n_groups)


def clustered_ratio(sums: ClusterSums) -> Estimates:
    """Ratios of sums with delete-one-cluster jackknife intervals, for all groups at once.

    The deviations are taken around the estimate, which is at least as wide as around their mean and equals
    the CR3 sandwich of a weighted mean (Bell and McCaffrey 2002); the quantile is Student's t on the
    effective clusters less one, because a few large clusters say less than their number.

    Args:
        sums: Each pair of group and cluster at most once.
    """
    counted = sums.w != 0
    n_clusters = np.bincount(sums.group[counted], minlength=sums.n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.total(sums.x) / sums.total(sums.w)
        effective = np.nan_to_num(sums.total(sums.w) ** 2 / sums.total(sums.w**2))
        deviations = _deviations(sums, value)
        variance = sums.total(deviations**2) * (n_clusters - 1) / n_clusters
    return _student(value, np.sqrt(variance), n_clusters, effective)


def clustered_difference(first: ClusterSums, second: ClusterSums) -> Estimates:
    """Differences ``first - second`` of ratios whose groups share clusters, group by group.

    A cluster that both sides hold is left out of both at once, so what it does to both alike cancels.
    """
    n_groups = first.n_groups
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [sums.total(sums.x) / sums.total(sums.w) for sums in (first, second)]
        parts = [
            sign * _deviations(sums, value)
            for sign, sums, value in zip((1.0, -1.0), (first, second), values, strict=True)
        ]
        group = np.concatenate([first.group, second.group])
        cluster = np.concatenate([first.cluster, second.cluster])
        width = int(cluster.max(initial=0)) + 1
        pairs, inverse = np.unique(group.astype(np.int64) * width + cluster, return_inverse=True)
        joint = np.bincount(inverse, np.concatenate(parts), minlength=len(pairs))
        owner = pairs // width
        n_clusters = np.bincount(owner, minlength=n_groups)
        variance = np.bincount(owner, joint**2, minlength=n_groups) * (n_clusters - 1) / n_clusters
        effective = np.minimum(*(np.nan_to_num(s.total(s.w) ** 2 / s.total(s.w**2)) for s in (first, second)))
    return _student(values[0] - values[1], np.sqrt(variance), n_clusters, effective)


def ci_method(name: str, *, too_few: bool) -> str:
    """What a score says of its interval; it ends in `TOO_FEW` where no verdict should be drawn.

    >>> ci_method("clustered jackknife", too_few=True)
    'clustered jackknife, too few clusters'
    """
    return f"{name}, {TOO_FEW}" if too_few else name


Statistic = Callable[[Float[np.ndarray, "replicate total"]], Float[np.ndarray, " replicate"]]


def jackknife(statistic: Statistic, sums: Float[np.ndarray, "cluster total"], effective: float) -> Estimates:
    """Interval of a smooth function of totals, by leaving out one cluster at a time.

    Args:
        statistic: From rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        effective: Effective number of clusters, see `kish`.

    Returns:
        One group.
    """
    total = sums.sum(axis=0, keepdims=True)
    value = statistic(total)
    without = statistic(total - sums)
    present = (sums != 0).any(axis=1)
    n_clusters = int(present.sum())
    # A statistic may not exist without a cluster (the only one that holds a tag); then nothing can be said.
    squares = ((without[present] - value) ** 2).sum()
    deviation = np.sqrt(squares * max(n_clusters - 1, 0) / max(n_clusters, 1))
    return _single(float(value[0]), float(deviation), n_clusters, effective)


def cluster_bootstrap(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    rng: np.random.Generator,
    *,
    replicates: int = 200,
    block: int = 25,
) -> Estimates:
    """Interval of a statistic without derivatives (ranks, absolute values), by drawing clusters with return.

    The draws give a standard error, widened by G / (G - 1); the interval is centred at the estimate with
    Student's t, since the draws of such statistics are biased (a token missing from a draw leaves its rank
    to others).

    Args:
        statistic: From rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        weight: Size of each cluster, for the effective number.
        rng: Source of the draws.
        replicates: Number of draws.
        block: Draws evaluated at once, which bounds memory.

    Returns:
        One group.
    """
    n_clusters = int((weight > 0).sum())
    held = np.flatnonzero(weight > 0)
    kept = sums[held]
    value = float(statistic(_times(np.ones((1, len(held))), kept))[0])
    if n_clusters < 2:
        return _single(value, np.nan, n_clusters, kish(weight))
    draws: list[Float[np.ndarray, " replicate"]] = []
    for start in range(0, replicates, block):
        size = min(block, replicates - start)
        counts = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=size)
        draws.append(statistic(_times(counts.astype(np.float64), kept)))
    deviation = float(np.nanstd(np.concatenate(draws), ddof=1)) * np.sqrt(n_clusters / (n_clusters - 1))
    return _single(value, deviation, n_clusters, kish(weight))


def kish(weight: Float[np.ndarray, " cluster"]) -> float:
    """Effective number of clusters of these sizes; 0 where all are empty."""
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0


def benjamini_hochberg(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Adjusted p-values that control the false discovery rate (Benjamini and Hochberg 1995)."""
    order = np.argsort(p)
    ranked = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.minimum.accumulate(ranked[::-1])[::-1]
    result = np.empty_like(p)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def two_sided_p(estimates: Estimates) -> Float[np.ndarray, " group"]:
    """P-values of "the value is 0" by the t test whose intervals the estimates carry; NaN without one."""
    freedom = estimates.effective - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = (estimates.high - estimates.value) / stdtrit(freedom, 0.5 + LEVEL / 2)
        return 2 * stdtr(freedom, -np.abs(estimates.value) / deviation)


def sign_flip_p(
    differences: Float[np.ndarray, " cluster"], rng: np.random.Generator, *, draws: int = 9999
) -> float:
    """Paired randomisation test: how often random signs give a sum as far from 0 as the one seen.

    Exact over all signs up to twelve clusters, else by draws; it needs no distribution, only that a
    cluster's difference could as well have had the other sign (Fisher 1935).

    Args:
        differences: One paired difference a cluster, already weighted.
        rng: Source of the signs.
        draws: How many signs are drawn where they are not all tried.
    """
    size = len(differences)
    if size <= _ALL_SIGNS:
        signs = 1.0 - 2.0 * ((np.arange(2**size)[:, None] >> np.arange(size)) & 1)
        own = 0
    else:
        signs, own = rng.choice([-1.0, 1.0], size=(draws, size)), 1
    seen = abs(float(differences.sum()))
    # Sums of the same numbers in another order differ in their last digits.
    as_far = np.abs(signs @ differences) >= seen * (1 - 1e-12)
    return (int(as_far.sum()) + own) / (len(signs) + own)


def _deviations(sums: ClusterSums, value: Float[np.ndarray, " group"]) -> Float[np.ndarray, " row"]:
    """How far each group's ratio moves when a cluster is left out; 0 for clusters without weight."""
    rest = sums.total(sums.w)[sums.group] - sums.w
    moved = (sums.x - value[sums.group] * sums.w) / rest
    return np.where((sums.w == 0) & (sums.x == 0), 0.0, moved)


def _student(
    value: Float[np.ndarray, " group"],
    deviation: Float[np.ndarray, " group"],
    n_clusters: Int[np.ndarray, " group"],
    effective: Float[np.ndarray, " group"],
) -> Estimates:
    # Below two effective clusters (one holds most of the weight) Student's quantile runs off to thousands of
    # deviations: such a value has no interval.
    freedom = np.where((n_clusters > 1) & (effective >= 2), effective - 1, np.nan)
    with np.errstate(invalid="ignore"):
        half = stdtrit(freedom, 0.5 + LEVEL / 2) * deviation
    return Estimates(value, value - half, value + half, n_clusters, effective)


def _single(value: float, deviation: float, n_clusters: int, effective: float) -> Estimates:
    return _student(np.array([value]), np.array([deviation]), np.array([n_clusters]), np.array([effective]))


def _times(
    counts: Float[np.ndarray, "replicate cluster"],
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
) -> Float[np.ndarray, "replicate total"]:
    return np.asarray(counts @ sums, dtype=np.float64)
