"""Resampling: the cluster bootstrap, and noise between seeds and between draws.

The bootstrap gives the error of statistics without derivatives, from clusters drawn with replacement.

For what was trained or drawn, one interval covers both how far the number would move with another seed, and
how far on other clusters. A seed sets initialisation, order and training subset, never the split. The
variance of a difference of two methods with S_a and S_b independent seeds is s_a^2 / S_a + s_b^2 / S_b
(between seeds, of the overall value) plus the clustered variance of the paired differences of seed means;
degrees of freedom by Welch and Satterthwaite over the three terms. The last term holds a part of what varies
by seed and example: slightly cautious. With one training there are no seeds to estimate from: then the
interval is over examples only. A control that is drawn at random, several times over the same examples, is
treated in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from sonde.stats.estimate import (
    SCALES,
    Clusters,
    ClusterSums,
    Estimates,
    Statistic,
    build_estimates,
    cluster_sums,
    estimate_ratios,
    kish,
    minimum_icc,
)
from sonde.stats.intervals import (
    Bounds,
    GroupValues,
    Kind,
    student_interval,
    student_interval_on_scale,
    to_scale,
    two_sided_p,
)

BOOTSTRAP = "clustered bootstrap"


_NEARLY_ONE = 1 - 1e-9


def bootstrap(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    rng: np.random.Generator,
    kind: Kind,
    *,
    replicates: int = 200,
    block: int = 25,
) -> Estimates:
    """Estimate a statistic without derivatives (ranks, absolute values) by resampling clusters.

    The draws give a standard error on the scale of the kind, widened by G / (G - 1); the interval is centred
    at the estimate with Student's t, since the draws of such statistics are biased (a token missing from a
    draw leaves its rank to others).

    Args:
        statistic: Maps rows of totals to one number per row.
        sums: Each cluster's part of the totals.
        weight: Size of each cluster, for the effective number.
        rng: Random generator of the draws.
        kind: Kind of the number.
        replicates: Number of draws.
        block: Draws evaluated at once, which bounds memory.

    Returns:
        One group.
    """
    indices = np.flatnonzero(weight > 0)
    cluster_totals, size = sums[indices], len(indices)
    value = statistic(_weight_totals(np.ones((1, size)), cluster_totals))
    df, on_scale = np.array([kish(weight) - 1]), kind == "correlation"
    error = missing = np.full(1, np.nan)
    bounds, p_value = Bounds(missing, missing), missing
    if size > 1:
        draws = np.concatenate(
            [
                statistic(
                    _weight_totals(rng.multinomial(size, np.full(size, 1 / size), size=count), cluster_totals)
                )
                for count in _block_sizes(replicates, block)
            ]
        )
        scaled_draws = to_scale(np.clip(draws, -_NEARLY_ONE, _NEARLY_ONE), kind) if on_scale else draws
        error = np.nanstd(scaled_draws, ddof=1, keepdims=True) * np.sqrt(size / (size - 1))
        bounds = (
            student_interval_on_scale(value, error, df, kind)
            if on_scale
            else student_interval(value, error, df, kind)
        )
    if on_scale:
        error = error * (1 - value**2)
        p_value = two_sided_p(value, error, df, kind)
    return Estimates(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n_clusters=np.array([size]),
        effective=df + 1,
        n_eff=missing,
        df=df,
        error=error,
        p_value=p_value,
        width_factor=Bounds(np.ones(1), np.ones(1)),
        method=BOOTSTRAP + SCALES.get(kind, ""),
    )


def _block_sizes(replicates: int, block: int) -> list[int]:
    return [min(block, replicates - start) for start in range(0, replicates, block)]


def _weight_totals(
    counts: Float[np.ndarray, "replicate cluster"] | Int[np.ndarray, "replicate cluster"],
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
) -> Float[np.ndarray, "replicate total"]:
    return np.asarray(counts.astype(np.float64) @ sums, dtype=np.float64)


BySeed = Float[np.ndarray, "seed example"]


def mean_by_seed(values: BySeed, clusters: Clusters) -> Estimates:
    """Estimate the mean over seeds and examples of numbers between 0 and 1, for example of correctness.

    Args:
        values: One row a seed.
        clusters: Cluster of each example.

    Returns:
        One group, with a proportion's interval.
    """
    sums = cluster_sums(values.mean(0)[None], clusters)
    estimates = estimate_ratios(sums, "proportion")
    return _add_noise_from_sums(estimates, sums, "proportion", [seed_variance(values)])


def difference_by_seed(first: BySeed, second: BySeed, clusters: Clusters) -> Estimates:
    """Estimate the difference of two such means over the same examples.

    Args:
        first: One row a seed; a single row is a method without training noise, or with unknown noise.
        second: Likewise; its seeds are independent of the first's.
        clusters: Cluster of each example.
    """
    first_means, second_means = first.mean(0), second.mean(0)
    mean_gaps = first_means - second_means
    sums = cluster_sums(mean_gaps[None], clusters)
    estimates = estimate_ratios(sums, "difference", squares=np.array([(mean_gaps**2).sum()]))
    return _add_noise_from_sums(estimates, sums, "difference", [seed_variance(first), seed_variance(second)])


def seed_variance(values: BySeed) -> tuple[float, int]:
    """Return the variance of the mean over seeds, and its degrees of freedom; 0 and 0 for one seed."""
    seeds = len(values)
    return (float(variance_of_mean(values.mean(1))), seeds - 1) if seeds > 1 else (0.0, 0)


def variance_of_mean(values: Float[np.ndarray, "seed ..."]) -> np.ndarray:
    """Return the variance of each group's mean over at least two seeds or draws."""
    return values.var(axis=0, ddof=1) / len(values)


def control_draw_variance(values: Float[np.ndarray, "draw ..."]) -> np.ndarray:
    """Return the variance of a number less the mean over draws of its control, as far as draws decide it.

    The number compared with the draws is itself one draw of its kind: s^2 (1 + 1/m), and not s^2/m.
    """
    return values.var(axis=0, ddof=1) * (1 + 1 / len(values))


def add_draw_noise(
    estimates: Estimates, kind: Kind, draw_values: Float[np.ndarray, "draw group"], sums: ClusterSums
) -> Estimates:
    """Add the variance between draws of a control to estimates; fewer than two draws add none.

    Args:
        estimates: Means over the draws, with intervals over clusters.
        kind: Kind of the estimates.
        draw_values: Value of each group in each draw.
        sums: Sums from which the estimates were made.
    """
    if len(draw_values) <= 1:
        return estimates
    return _add_noise_from_sums(
        estimates, sums, kind, [(control_draw_variance(draw_values), len(draw_values) - 1)], "draws"
    )


def _add_noise_from_sums(
    estimates: Estimates,
    sums: ClusterSums,
    kind: Kind,
    noise: Sequence[tuple[float | GroupValues, int]],
    source: str = "seeds",
) -> Estimates:
    size = {"n": sums.total(sums.w), "mean_size": sums.mean_size, "icc": minimum_icc(sums)}
    return add_noise(estimates, kind, noise, source=source, **size)


def add_noise(
    estimates: Estimates,
    kind: Kind,
    noise: Sequence[tuple[float | GroupValues, int]],
    *,
    n: GroupValues,
    mean_size: GroupValues,
    icc: GroupValues,
    source: str = "seeds",
) -> Estimates:
    """Add training noise to estimates whose intervals are over clusters.

    Args:
        estimates: The estimates.
        kind: Kind of the estimates.
        noise: Variance, of all groups or of each, and degrees of freedom of each set of seeds.
        n: Number of observations of each estimate.
        mean_size: See `ClusterSums.mean_size`.
        icc: Lower bounds of the intraclass correlation.
        source: Source of the noise, for the name of the method.
    """
    terms = [(variance, df) for variance, df in noise if np.any(np.greater(variance, 0))]
    if not terms:
        return estimates
    cluster_variance = estimates.error**2
    variance = cluster_variance + sum(term for term, _ in terms)
    with np.errstate(divide="ignore", invalid="ignore"):
        denominator = cluster_variance**2 / estimates.df + sum(term**2 / df for term, df in terms)
        welch = variance**2 / denominator
    return build_estimates(
        estimates.value,
        variance,
        estimates.n_clusters,
        estimates.effective,
        kind,
        n=n,
        mean_size=mean_size,
        icc=icc,
        method=f"{source} and {estimates.method.partition(',')[0]}",
        df=np.where(np.isfinite(estimates.df) & (estimates.df >= 1), welch, np.nan),
        width_factor=estimates.width_factor,
    )
