"""Resampling: the cluster bootstrap, and noise between seeds and between draws."""

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
    estimated,
    kish,
    least_icc,
    ratios,
    sums_of,
)
from sonde.stats.intervals import Bounds, Column, Kind, student, student_on_scale, to_scale, two_sided_p

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
        statistic: Maps rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        weight: Size of each cluster, for the effective number.
        rng: Random generator of the draws.
        kind: Kind of the number.
        replicates: Number of draws.
        block: Draws evaluated at once, which bounds memory.

    Returns:
        One group.
    """
    held = np.flatnonzero(weight > 0)
    kept, size = sums[held], len(held)
    value = statistic(_times(np.ones((1, size)), kept))
    df, on_scale = np.array([kish(weight) - 1]), kind == "correlation"
    error = nothing = np.full(1, np.nan)
    bounds, p_value = Bounds(nothing, nothing), nothing
    if size > 1:
        draws = np.concatenate(
            [
                statistic(_times(rng.multinomial(size, np.full(size, 1 / size), size=count), kept))
                for count in _blocks(replicates, block)
            ]
        )
        drawn = to_scale(np.clip(draws, -_NEARLY_ONE, _NEARLY_ONE), kind) if on_scale else draws
        error = np.nanstd(drawn, ddof=1, keepdims=True) * np.sqrt(size / (size - 1))
        bounds = student_on_scale(value, error, df, kind) if on_scale else student(value, error, df, kind)
    if on_scale:
        error = error * (1 - value**2)
        p_value = two_sided_p(value, error, df, kind)
    return Estimates(
        value=value,
        low=bounds.low,
        high=bounds.high,
        n_clusters=np.array([size]),
        effective=df + 1,
        n_eff=nothing,
        df=df,
        error=error,
        p_value=p_value,
        wider=Bounds(np.ones(1), np.ones(1)),
        method=BOOTSTRAP + SCALES.get(kind, ""),
    )


def _blocks(replicates: int, block: int) -> list[int]:
    return [min(block, replicates - start) for start in range(0, replicates, block)]


def _times(
    counts: Float[np.ndarray, "replicate cluster"] | Int[np.ndarray, "replicate cluster"],
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
) -> Float[np.ndarray, "replicate total"]:
    return np.asarray(counts.astype(np.float64) @ sums, dtype=np.float64)


BySeed = Float[np.ndarray, "seed example"]


def trained_mean(values: BySeed, clusters: Clusters) -> Estimates:
    """Estimate the mean over seeds and examples of numbers between 0 and 1, for example of correctness.

    Args:
        values: One row a seed.
        clusters: Cluster of each example.

    Returns:
        One group, with a proportion's interval.
    """
    sums = sums_of(values.mean(0)[None], clusters)
    alone = ratios(sums, "proportion")
    return _over(alone, sums, "proportion", [between_seeds(values)])


def trained_difference(first: BySeed, second: BySeed, clusters: Clusters) -> Estimates:
    """Estimate the difference of two such means over the same examples.

    Args:
        first: One row a seed; a single row is a method without training noise, or with unknown noise.
        second: Likewise; its seeds are independent of the first's.
        clusters: Cluster of each example.
    """
    one, two = first.mean(0), second.mean(0)
    apart = one - two
    sums = sums_of(apart[None], clusters)
    alone = ratios(sums, "difference", squares=np.array([(apart**2).sum()]))
    return _over(alone, sums, "difference", [between_seeds(first), between_seeds(second)])


def between_seeds(values: BySeed) -> tuple[float, int]:
    """Return the variance of the mean over seeds, and its degrees of freedom; 0 and 0 for one seed."""
    seeds = len(values)
    return (float(noise_of(values.mean(1))), seeds - 1) if seeds > 1 else (0.0, 0)


def noise_of(values: Float[np.ndarray, "seed ..."]) -> np.ndarray:
    """Return the variance of each group's mean over at least two seeds or draws."""
    return values.var(axis=0, ddof=1) / len(values)


def noise_of_draws(values: Float[np.ndarray, "draw ..."]) -> np.ndarray:
    """Return the variance of a number less the mean over draws of its control, as far as draws decide it.

    The number compared with the draws is itself one draw of its kind: s^2 (1 + 1/m), and not s^2/m.
    """
    return values.var(axis=0, ddof=1) * (1 + 1 / len(values))


def over_draws(
    alone: Estimates, kind: Kind, drawn: Float[np.ndarray, "draw group"], sums: ClusterSums
) -> Estimates:
    """Add the variance between draws of a control to estimates; fewer than two draws add none.

    Args:
        estimates: Means over the draws, with intervals over clusters.
        kind: Kind of the estimates.
        draw_values: Value of each group in each draw.
        sums: Sums from which the estimates were made.
    """
    if len(drawn) <= 1:
        return alone
    return _over(alone, sums, kind, [(noise_of_draws(drawn), len(drawn) - 1)], "draws")


def _over(
    alone: Estimates,
    sums: ClusterSums,
    kind: Kind,
    noise: Sequence[tuple[float | Column, int]],
    source: str = "seeds",
) -> Estimates:
    size = {"n": sums.total(sums.w), "mean_size": sums.mean_size, "icc": least_icc(sums)}
    return with_noise(alone, kind, noise, source=source, **size)


def with_noise(
    alone: Estimates,
    kind: Kind,
    noise: Sequence[tuple[float | Column, int]],
    *,
    n: Column,
    mean_size: Column,
    icc: Column,
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
        return alone
    clustered = alone.error**2
    variance = clustered + sum(term for term, _ in terms)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = clustered**2 / alone.df + sum(term**2 / df for term, df in terms)
        welch = variance**2 / spread
    return estimated(
        alone.value,
        variance,
        alone.n_clusters,
        alone.effective,
        kind,
        n=n,
        mean_size=mean_size,
        icc=icc,
        method=f"{source} and {alone.method.partition(',')[0]}",
        df=np.where(np.isfinite(alone.df) & (alone.df >= 1), welch, np.nan),
        wider=alone.wider,
    )
