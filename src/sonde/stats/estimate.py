"""Estimates from clustered observations, with two-sided 95 % intervals: one estimator for all lenses.

The kind of number (`Kind`) alone decides the interval:

- means of bits and nats: delete-one-cluster jackknife around the ratio of sums (the CR3 sandwich of Bell and
  McCaffrey 2002), Student's t with the effective clusters less one, on the log scale where they are positive,
  and on either side as wide as the bootstrap-t by cluster where skew asks for more (`sonde.stats.intervals`);
- proportions: Korn and Graubard (1998), with a least design effect;
- differences of proportions: per-example differences, on Fisher's scale, with a least variance;
- other bounded statistics: the jackknife on Fisher's scale (correlations) or the logit scale (means of what
  lies between 0 and 1); R^2 as it is, cut at 1.

Every estimate is made from sums of observations by cluster (`ClusterSums`). Tokens of one project resemble
each other, so projects (or packages, modules, files) are the independent units here, never tokens.

A paired comparison of two models needs what each cluster contributes to a number (`Contributions`), besides
the values. A ratio of sums is kept as its sums by cluster, any other statistic as its change without each
cluster. Two numbers over the same clusters are compared by subtracting the contributions of each cluster, so
that what is hard or easy for both models cancels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy import sparse

from sonde.stats.intervals import (
    BOOTSTRAP_T,
    SKEWED_KINDS,
    Bounds,
    GroupValues,
    Kind,
    bootstrap_t_factors,
    effective_size,
    korn_graubard,
    student_interval,
    student_interval_on_scale,
    to_scale,
    two_sided_p,
)

MIN_ICC = 0.05
"""Lower bound of the assumed intraclass correlation."""


_DEFAULT_ICC = 0.2


_MIN_RARE_CLUSTERS = 3


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

    @property
    def n_clusters(self) -> Int[np.ndarray, " group"]:
        """Return the number of clusters of each group that hold any weight."""
        return np.bincount(self.group[self.w != 0], minlength=self.n_groups)

    @property
    def effective(self) -> Float[np.ndarray, " group"]:
        """Return the effective number of clusters of each group, see `kish`; 0 where a group is empty."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.total(self.w) ** 2 / self.total(self.w**2))

    @property
    def mean_size(self) -> Float[np.ndarray, " group"]:
        """Return the size of a random observation's cluster, sum w^2 / sum w; 0 for an empty group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.total(self.w**2) / self.total(self.w))


Clusters = Int[np.ndarray, " example"] | Sequence[str]
"""The cluster of each example: numbers or names."""


def cluster_sums(values: Float[np.ndarray, "row example"], clusters: Clusters) -> ClusterSums:
    """Sum rows of values over the same examples by cluster; each row is a group, each example weighs 1."""
    names, index = np.unique(clusters, return_inverse=True)
    rows = len(values)
    cell = (np.arange(rows)[:, None] * len(names) + index).ravel()
    x = np.bincount(cell, values.ravel(), minlength=rows * len(names))
    w = np.tile(np.bincount(index, minlength=len(names)).astype(np.float64), rows)
    group, cluster = np.divmod(np.arange(rows * len(names)), len(names))
    return ClusterSums(group, cluster, x, w, rows)


def sum_by_cluster(
    values: Float[np.ndarray, "example value"], clusters: Clusters
) -> tuple[Shaped[np.ndarray, " cluster"], Float[np.ndarray, "cluster value"]]:
    """Return the clusters in order, and the sum of each value in each cluster."""
    names, owner = np.unique(clusters, return_inverse=True)
    size = len(owner)
    owners = sparse.csr_array((np.ones(size), (owner, np.arange(size))), shape=(len(names), size))
    return names, owners @ values


def kish(weight: Float[np.ndarray, " cluster"]) -> float:
    """Return the effective number of clusters, (sum w)^2 / sum w^2 (Kish 1965).

    >>> kish(np.array([3.0, 3.0, 3.0]))
    3.0
    """
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0


def minimum_icc(sums: ClusterSums) -> Float[np.ndarray, " group"]:
    """Return the lower bound of the intraclass correlation assumed for the proportion of each group.

    The one pooled over all groups of the metric, and not below 0.05: with few clusters a small one cannot be
    told from 0. Where fewer than three clusters hold the rarer outcome, 0.2: the sample cannot show how
    that outcome clusters, and without this floor an interval at p = 0.02 covers 87 % instead of 95 %.
    """
    holds = (sums.x > 0).astype(np.float64), (sums.x < sums.w).astype(np.float64)
    rarer = np.minimum(*(sums.total(outcome) for outcome in holds))
    floor = np.where(rarer < _MIN_RARE_CLUSTERS, _DEFAULT_ICC, MIN_ICC)
    return np.maximum(_pooled_icc(sums), floor)


def _pooled_icc(sums: ClusterSums) -> float:
    """Estimate the intraclass correlation of proportions, pooled over all groups by analysis of variance.

    The share of the variance that lies between clusters (Donner 1986), for 0/1 observations of which each
    cluster's sum ``x`` of ``w`` is known. One number for all groups of a metric: within a small group it
    cannot be told.

    Returns:
        Between 0 and 1; 0 where nothing can be told (every cluster holds one observation).
    """
    has_weight = sums.w > 0
    group, x, w = sums.group[has_weight], sums.x[has_weight], sums.w[has_weight]
    n = np.bincount(group, w, minlength=sums.n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(group, x, minlength=sums.n_groups) / n
        share = x / w
        between_squares = float((w * (share - mean[group]) ** 2).sum())
        within_squares = float((x * (1 - share)).sum())
        size_term = np.nansum(n - np.bincount(group, w**2, minlength=sums.n_groups) / n)
    free_between = len(w) - len(np.unique(group))
    free_within = float(w.sum()) - len(w)
    if free_between <= 0 or free_within <= 0:
        return 0.0
    size = float(size_term) / free_between
    mean_between, mean_within = between_squares / free_between, within_squares / free_within
    total = mean_between + (size - 1) * mean_within
    return float(np.clip((mean_between - mean_within) / total, 0.0, 1.0)) if total > 0 else 0.0


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
"""Suffixes of method names, by scale."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimates:
    """Numbers with their intervals, one entry a group.

    Attributes:
        value: The estimate; NaN where a group has no weight.
        low: Lower end; NaN with fewer than two effective clusters.
        high: Upper end; NaN likewise.
        n_clusters: Clusters with any weight.
        effective: Effective clusters (`kish`).
        n_eff: Effective sample size of a proportion (independent observations); NaN for other kinds.
        df: Degrees of freedom of the interval.
        error: Standard error, on the number's own scale.
        p_value: P-value of "the value is 0", for differences and correlations; NaN for other kinds.
        width_factor: Factors of Student's half-widths below and above, see
            `sonde.stats.intervals.bootstrap_t_factors`.
        method: Name of the interval's method.
    """

    value: GroupValues
    low: GroupValues
    high: GroupValues
    n_clusters: Int[np.ndarray, " group"]
    effective: GroupValues
    n_eff: GroupValues
    df: GroupValues
    error: GroupValues
    p_value: GroupValues
    width_factor: Bounds
    method: str

    @property
    def facing_zero(self) -> GroupValues:
        """Return the factor of the end that faces 0, by which a test against 0 widens the standard error."""
        return np.where(self.value > 0, self.width_factor.low, self.width_factor.high)


def estimate_ratios(sums: ClusterSums, kind: Kind, *, squares: GroupValues | None = None) -> Estimates:
    """Estimate ratios of sums, for all groups at once.

    Args:
        sums: Each pair of group and cluster at most once. For a proportion ``x`` counts successes and ``w``
            all observations; its groups are the rows of one metric, whose intraclass correlation is pooled.
        kind: Kind of the ratio.
        squares: Of a mean of paired differences of 0/1 (``difference``), the sum of their squares: the
            discordant pairs.
    """
    value, deviations = _leave_out_clusters(sums)
    variance = jackknife_variance(sums.total(deviations**2), sums.n_clusters)
    if squares is not None:
        variance = np.maximum(variance, minimum_paired_variance(value, squares, sums.total(sums.w)))
    has_data = (sums.w != 0) | (sums.x != 0)
    return build_estimates(
        value,
        variance,
        sums.n_clusters,
        sums.effective,
        kind,
        n=sums.total(sums.w),
        mean_size=sums.mean_size,
        icc=minimum_icc(sums),
        method=JACKKNIFE if squares is None else f"paired {JACKKNIFE}",
        width_factor=bootstrap_t_factors(sums.group[has_data], deviations[has_data], value, kind),
    )


def estimate_differences(
    first: ClusterSums,
    second: ClusterSums,
    kind: Kind,
    *,
    discordant: GroupValues | None = None,
) -> Estimates:
    """Estimate differences ``first - second`` of ratios whose groups share clusters, group by group.

    A cluster that both sides hold is left out of both at once, so what it does to both alike cancels.

    Args:
        first: Sums of one side.
        second: Sums of the other side.
        kind: ``difference`` for two proportions or two numbers between 0 and 1, ``real`` for others.
        discordant: For a paired difference of proportions, the number of discordant pairs; without it the
            sides are taken as different observations.
    """
    n_groups = first.n_groups
    (first_ratio, first_deviations), (second_ratio, second_deviations) = (
        _leave_out_clusters(first),
        _leave_out_clusters(second),
    )
    group = np.concatenate([first.group, second.group]).astype(np.int64)
    cluster = np.concatenate([first.cluster, second.cluster])
    width = int(cluster.max(initial=0)) + 1
    pairs, inverse = np.unique(group * width + cluster, return_inverse=True)
    joint = np.bincount(inverse, np.concatenate([first_deviations, -second_deviations]), minlength=len(pairs))
    owner = pairs // width
    n_clusters = np.bincount(owner, minlength=n_groups)
    variance = jackknife_variance(np.bincount(owner, joint**2, minlength=n_groups), n_clusters)
    effective = np.minimum(first.effective, second.effective)
    value = first_ratio - second_ratio
    n_first, n_second = first.total(first.w), second.total(second.w)
    if kind == "difference":
        if discordant is not None:
            minimum_variance = minimum_paired_variance(value, discordant, n_first)
        else:
            minimum_variance = _smoothed_variance(first_ratio, n_first) + _smoothed_variance(
                second_ratio, n_second
            )
        variance = np.maximum(variance, minimum_variance)
    return build_estimates(
        value,
        variance,
        n_clusters,
        effective,
        kind,
        n=np.minimum(n_first, n_second),
        mean_size=np.maximum(first.mean_size, second.mean_size),
        icc=np.maximum(minimum_icc(first), minimum_icc(second)),
        method=f"paired {JACKKNIFE}" if discordant is not None else JACKKNIFE,
        width_factor=bootstrap_t_factors(owner, joint, value, kind),
    )


Statistic = Callable[[Float[np.ndarray, "replicate total"]], Float[np.ndarray, " replicate"]]


def jackknife(
    statistic: Statistic,
    sums: Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    kind: Kind,
) -> Estimates:
    """Estimate a smooth function of totals, leaving out one cluster at a time.

    Args:
        statistic: Maps rows of totals to one number per row.
        sums: Each cluster's part of the totals.
        weight: Observations in each cluster.
        kind: Kind of the number; deviations are taken on its scale without bounds.

    Returns:
        One group.
    """
    total = sums.sum(axis=0, keepdims=True)
    value = statistic(total)
    values_without = statistic(total - sums)
    present = (sums != 0).any(axis=1)
    n_clusters = np.array([int(present.sum())])
    variance = jackknife_variance(((values_without[present] - value) ** 2).sum(keepdims=True), n_clusters)
    size = np.array([weight.sum()])
    if kind == "difference":
        # At least so many pairs are discordant.
        variance = np.maximum(variance, minimum_paired_variance(value, np.abs(value) * size, size))
    effective = np.array([kish(weight)])
    estimates = build_estimates(
        value,
        variance,
        n_clusters,
        effective,
        kind,
        n=size,
        mean_size=(weight**2).sum() / np.maximum(size, 1.0),
        icc=np.full(1, MIN_ICC),
        width_factor=bootstrap_t_factors(
            np.zeros(int(n_clusters[0]), dtype=np.int64), (value - values_without)[present], value, kind
        ),
    )
    if kind not in ("correlation", "unit") or not (estimates.error > _NO_ERROR).all():
        return estimates
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = to_scale(values_without[present], kind) - to_scale(value, kind)
        on_scale = np.sqrt(jackknife_variance((deviations**2).sum(keepdims=True), n_clusters))
    if not np.isfinite(on_scale).all():
        return estimates
    bounds = student_interval_on_scale(value, on_scale, estimates.df, kind)
    return dataclasses.replace(estimates, low=bounds.low, high=bounds.high)


def leave_one_out(
    statistic: Statistic, sums: Float[np.ndarray, "cluster total"]
) -> Float[np.ndarray, " cluster"]:
    """Return the change of a function of totals when each cluster is left out; 0 without sums."""
    total = sums.sum(axis=0, keepdims=True)
    present = (sums != 0).any(axis=1)
    return np.where(present, statistic(total - sums) - statistic(total), 0.0)


def minimum_paired_variance(value: GroupValues, discordant: GroupValues, n: GroupValues) -> GroupValues:
    """Return the lower bound of the variance of a mean of paired 0/1 differences.

    It is the variance of independent pairs with one discordant pair added, ((discordant + 1) / n - d^2) / n:
    with no discordant pair, or few, the sample's own variance is far too small.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum((discordant + 1) / n - value**2, 0.0) / n


def _smoothed_variance(value: GroupValues, n: GroupValues) -> GroupValues:
    """Return the variance of a proportion, with one success and one failure added."""
    share = (value * n + 1) / (n + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return share * (1 - share) / n


def build_estimates(
    value: GroupValues,
    variance: GroupValues,
    n_clusters: Int[np.ndarray, " group"],
    effective: GroupValues,
    kind: Kind,
    *,
    n: GroupValues,
    mean_size: GroupValues,
    icc: GroupValues,
    method: str = JACKKNIFE,
    df: GroupValues | None = None,
    width_factor: Bounds | None = None,
) -> Estimates:
    """Build estimates with the interval of their kind, from values and variances.

    Args:
        value: The estimates.
        variance: Clustered variances, including the training noise of seeds if there is any.
        n_clusters: Clusters with any weight.
        effective: Effective clusters.
        kind: Kind of the numbers.
        n: Observations, for the effective size of proportions.
        mean_size: Size of a random observation's cluster, see `ClusterSums.mean_size`.
        icc: Lower bounds of the intraclass correlation.
        method: Name of the variance estimator.
        df: Degrees of freedom; by default effective clusters less one.
        width_factor: See `Estimates.width_factor`; 1 by default.
    """
    width_factor = width_factor or Bounds(np.ones(len(value)), np.ones(len(value)))
    df = np.where(n_clusters > 1, effective - 1, np.nan) if df is None else df
    error = np.sqrt(variance)
    missing = np.full(len(value), np.nan)
    n_eff = p_value = missing
    if kind in ("proportion", "unit", "difference"):
        share = np.abs(value) if kind == "difference" else value
        n_eff = effective_size(share, variance, n, df, mean_size, icc)
    if kind == "proportion":
        bounds, method = korn_graubard(value, n_eff), KORN_GRAUBARD
    else:
        bounds = student_interval(value, error, df, kind, width_factor)
        method += SCALES.get(kind, "") + (BOOTSTRAP_T if kind in SKEWED_KINDS else "")
    if kind == "unit":
        # At the ends, and where no variance is seen, the logit says nothing: as if all were right or wrong.
        ends = (value <= 0) | (value >= 1) | (error <= _NO_ERROR)
        bounds = _select_bounds(ends, korn_graubard(value, n_eff), bounds)
    if kind in ("difference", "correlation"):
        p_value = two_sided_p(value, error, df, kind)
    if kind == "difference":
        bounds, p_value = _sign_test(value, n_eff, bounds, p_value)
    return Estimates(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n_clusters=n_clusters,
        effective=effective,
        n_eff=n_eff if kind == "proportion" else missing,
        df=df,
        error=error,
        p_value=p_value,
        width_factor=width_factor,
        method=method,
    )


def _sign_test(
    value: GroupValues, n_eff: GroupValues, bounds: Bounds, p_value: GroupValues
) -> tuple[Bounds, GroupValues]:
    """Use the sign test of ``n_eff`` pairs where all pairs have the same sign: there no scale serves."""
    ends = np.abs(value) >= 1
    if not ends.any():
        return bounds, p_value
    lower_end = 2 * korn_graubard(np.ones(len(value)), n_eff).low - 1
    low = np.where(value > 0, lower_end, -1.0)
    high = np.where(value > 0, 1.0, -lower_end)
    is_known = np.isfinite(n_eff)
    sign_bounds = Bounds(np.where(is_known, low, np.nan), np.where(is_known, high, np.nan))
    return _select_bounds(ends, sign_bounds, bounds), np.where(ends, np.minimum(2 * 0.5**n_eff, 1.0), p_value)


def _select_bounds(condition: Bool[np.ndarray, " group"], if_true: Bounds, if_false: Bounds) -> Bounds:
    return Bounds(
        np.where(condition, if_true.low, if_false.low), np.where(condition, if_true.high, if_false.high)
    )


def _leave_out_clusters(sums: ClusterSums) -> tuple[GroupValues, Float[np.ndarray, " row"]]:
    """Return each group's ratio, and its change when a cluster is left out (0 for clusters without weight).

    Deviations are taken around the estimate, which is at least as wide as around their mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sums.total(sums.x) / sums.total(sums.w)
        rest = sums.total(sums.w)[sums.group] - sums.w
        deviations = (sums.x - value[sums.group] * sums.w) / rest
    return value, np.where((sums.w == 0) & (sums.x == 0), 0.0, deviations)


def jackknife_variance(squares: GroupValues, n_clusters: Int[np.ndarray, " group"]) -> GroupValues:
    """Return the variance from summed squared leave-one-out changes; NaN for one cluster."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n_clusters > 1, squares * (n_clusters - 1) / n_clusters, np.nan)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contributions:
    """Contribution of each cluster to one number.

    Attributes:
        clusters: Names of the clusters; indices into a list of names until `named` is called.
        weight: Observations in each cluster: the denominator of a ratio.
        sums: Numerator of each cluster, for a ratio of sums; None for other statistics.
        deviations: Change of any other statistic when the cluster is left out; None for ratios.
        kind: Kind of the number.
        noise: Variance and degrees of freedom that training adds, a pair for each set of seeds.
    """

    clusters: Shaped[np.ndarray, " cluster"]
    weight: Float[np.ndarray, " cluster"]
    sums: Float[np.ndarray, " cluster"] | None = None
    deviations: Float[np.ndarray, " cluster"] | None = None
    kind: Kind = "real"
    noise: tuple[tuple[float, int], ...] = ()

    def named(self, names: Sequence[str]) -> Contributions:
        """Return the contributions with clusters by name instead of index."""
        return dataclasses.replace(self, clusters=np.asarray(names, object)[self.clusters])

    @property
    def content(self) -> tuple[bytes, ...] | None:
        """Return clusters, sizes and sums as bytes; None if other observations may have the same.

        Two sums of whole numbers are often the same by chance, and what is no ratio has no sums.
        """
        if self.sums is None or np.array_equal(self.sums, np.round(self.sums)):
            return None
        order = np.argsort(self.clusters.astype(str), kind="stable")
        order = order[self.weight[order] != 0]
        names = "\0".join(self.clusters[order].astype(str).tolist())
        return names.encode(), self.weight[order].tobytes(), self.sums[order].tobytes()

    def has_same_clusters(self, contributions: Contributions) -> bool:
        """Return whether both have as many observations in the same clusters."""
        sizes = [
            dict(zip(part.clusters.tolist(), part.weight.tolist(), strict=True))
            for part in (self, contributions)
        ]
        return sizes[0] == sizes[1]


def ratio_contributions(
    sums: ClusterSums,
    clusters: Shaped[np.ndarray, " cluster"],
    kind: Kind,
    noise: tuple[tuple[float, int], ...] = (),
) -> Iterator[Contributions]:
    """Yield the contributions to each group of ratios of sums, in order.

    Args:
        sums: Sums whose rows are in the order of their groups.
        clusters: Name of each cluster by its number in ``sums``.
        kind: Kind of the ratios.
        noise: See `Contributions.noise`.
    """
    ends = np.searchsorted(sums.group, np.arange(sums.n_groups + 1))
    names = clusters[sums.cluster]
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        rows = slice(start, stop)
        yield Contributions(
            clusters=names[rows], weight=sums.w[rows], sums=sums.x[rows], kind=kind, noise=noise
        )
