"""What each cluster contributes to a number: what a paired comparison of two models needs beside the values.

A ratio of sums is kept as its sums by cluster, any other statistic as how far it moves without each cluster.
Two numbers over the same clusters are compared by subtracting what each cluster does to either, so that what
is hard or easy for both models alike cancels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped

if TYPE_CHECKING:
    from sonde.results.clusters import ClusterSums
    from sonde.results.intervals import Kind


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contributions:
    """What each cluster contributes to one number.

    Attributes:
        clusters: The clusters, by name; by their place in a list of names until `named` is called.
        weight: Observations in each cluster: the denominator of a ratio.
        sums: Numerator of each cluster, of a ratio of sums; None for other statistics.
        moved: By how much any other statistic changes when the cluster is left out; None for ratios.
        kind: What the number is.
        noise: Variance and degrees of freedom that training adds, a pair for each set of seeds.
    """

    clusters: Shaped[np.ndarray, " cluster"]
    weight: Float[np.ndarray, " cluster"]
    sums: Float[np.ndarray, " cluster"] | None = None
    moved: Float[np.ndarray, " cluster"] | None = None
    kind: Kind = "real"
    noise: tuple[tuple[float, int], ...] = ()

    def named(self, names: Sequence[str]) -> Contributions:
        """The same, with clusters by name where they were numbers."""
        return dataclasses.replace(self, clusters=np.asarray(names, object)[self.clusters])

    @property
    def content(self) -> tuple[bytes, ...] | None:
        """Clusters, sizes and sums to the last bit; None where they may be those of other observations.

        Two sums of whole numbers are often the same by chance, and what is no ratio has no sums.
        """
        if self.sums is None or np.array_equal(self.sums, np.round(self.sums)):
            return None
        order = np.argsort(self.clusters.astype(str), kind="stable")
        order = order[self.weight[order] != 0]
        names = "\0".join(self.clusters[order].astype(str).tolist())
        return names.encode(), self.weight[order].tobytes(), self.sums[order].tobytes()

    def over_the_same(self, other: Contributions) -> bool:
        """Whether both are over as many observations in the same clusters."""
        sizes = [dict(zip(one.clusters.tolist(), one.weight.tolist(), strict=True)) for one in (self, other)]
        return sizes[0] == sizes[1]


def of_ratios(
    sums: ClusterSums,
    clusters: Shaped[np.ndarray, " cluster"],
    kind: Kind,
    noise: tuple[tuple[float, int], ...] = (),
) -> Iterator[Contributions]:
    """Of each group of ratios of sums, in order.

    Args:
        sums: Its rows stand in the order of their groups.
        clusters: Name of each cluster by its number in ``sums``.
        kind: What the ratios are.
        noise: See `Contributions.noise`.
    """
    ends = np.searchsorted(sums.group, np.arange(sums.n_groups + 1))
    names = clusters[sums.cluster]
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        rows = slice(start, stop)
        yield Contributions(
            clusters=names[rows], weight=sums.w[rows], sums=sums.x[rows], kind=kind, noise=noise
        )
