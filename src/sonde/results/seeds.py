"""What was trained or drawn: how far it would move with another seed, and on other clusters, in one interval.

A seed sets initialisation, order and training subset, never the split. The variance of a difference of two
methods with S_a and S_b independent seeds is s_a^2 / S_a + s_b^2 / S_b (between seeds, of the overall value)
and the clustered variance of the paired differences of seed means; degrees of freedom by Welch and
Satterthwaite over the three terms. The last holds a part of what varies by seed and example: slightly
cautious. One training has no seeds to tell from: then the interval is over examples alone. A control that is
drawn at random, several times over the same examples, is treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sonde.results.clusters import Clusters, ClusterSums, least_icc, sums_of
from sonde.results.estimate import Estimates, estimated, ratios
from sonde.results.intervals import Column, Kind

BySeed = Float[np.ndarray, "seed example"]


def trained_mean(values: BySeed, clusters: Clusters) -> Estimates:
    """The mean over seeds and examples of what lies between 0 and 1, for example whether each is right.

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
    """The difference of two such means over the same examples.

    Args:
        first: One row a seed; one row alone is a method whose training noise is none, or unknown.
        second: Likewise; its seeds are independent of the first's.
        clusters: Cluster of each example.
    """
    one, two = first.mean(0), second.mean(0)
    apart = one - two
    sums = sums_of(apart[None], clusters)
    alone = ratios(sums, "difference", squares=np.array([(apart**2).sum()]))
    return _over(alone, sums, "difference", [between_seeds(first), between_seeds(second)])


def between_seeds(values: BySeed) -> tuple[float, int]:
    """Variance of the mean over seeds, and its degrees of freedom; 0 and 0 for one seed."""
    seeds = len(values)
    return (float(noise_of(values.mean(1))), seeds - 1) if seeds > 1 else (0.0, 0)


def noise_of(values: Float[np.ndarray, "seed ..."]) -> np.ndarray:
    """Variance of the mean over seeds, or over draws, of each group's value; there are at least two."""
    return values.var(axis=0, ddof=1) / len(values)


def noise_of_draws(values: Float[np.ndarray, "draw ..."]) -> np.ndarray:
    """Variance of one number less the mean over draws of its control, as far as the draws decide it.

    What is held against the draws is one draw of its kind too: s^2 (1 + 1/m), and not s^2/m.
    """
    return values.var(axis=0, ddof=1) * (1 + 1 / len(values))


def over_draws(
    alone: Estimates, kind: Kind, drawn: Float[np.ndarray, "draw group"], sums: ClusterSums
) -> Estimates:
    """Estimates with what the draws of a control add; as they are for fewer than two, which tell nothing.

    Args:
        alone: Means over the draws, with intervals over clusters.
        kind: What they are.
        drawn: The value of each group with each draw.
        sums: The sums behind the estimates.
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
    """Estimates whose intervals are over clusters, with what training adds.

    Args:
        alone: The estimates.
        kind: What they are.
        noise: Variance, of all groups or of each, and degrees of freedom of each set of seeds.
        n: Observations behind each.
        mean_size: See `ClusterSums.mean_size`.
        icc: Least intraclass correlations.
        source: What the noise is of, for the name of the method.
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
