"""Sums of observations by cluster: what every estimate is made from.

Tokens of one project resemble each other, so projects (or packages, modules, files) are the independent units
here, never tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy import sparse

LEAST_ICC = 0.05
"""Below this an intraclass correlation is not believed."""

_UNSEEN_ICC = 0.2
_SHOWING_CLUSTERS = 3


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
    def counted(self) -> Int[np.ndarray, " group"]:
        """Clusters of each group that hold any weight."""
        return np.bincount(self.group[self.w != 0], minlength=self.n_groups)

    @property
    def effective(self) -> Float[np.ndarray, " group"]:
        """Effective number of clusters of each group, see `kish`; 0 where a group is empty."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.total(self.w) ** 2 / self.total(self.w**2))

    @property
    def mean_size(self) -> Float[np.ndarray, " group"]:
        """Size of the cluster that a random observation stands in: sum w^2 / sum w; 0 for an empty group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.total(self.w**2) / self.total(self.w))


Clusters = Int[np.ndarray, " example"] | Sequence[str]
"""The cluster of each example: numbers or names."""


def sums_of(values: Float[np.ndarray, "row example"], clusters: Clusters) -> ClusterSums:
    """Sums of rows of values of the same examples; each row is a group, each example weighs 1."""
    kept, index = np.unique(clusters, return_inverse=True)
    rows = len(values)
    place = (np.arange(rows)[:, None] * len(kept) + index).ravel()
    x = np.bincount(place, values.ravel(), minlength=rows * len(kept))
    w = np.tile(np.bincount(index, minlength=len(kept)).astype(np.float64), rows)
    group, cluster = np.divmod(np.arange(rows * len(kept)), len(kept))
    return ClusterSums(group, cluster, x, w, rows)


def added_up(
    values: Float[np.ndarray, "example value"], clusters: Clusters
) -> tuple[Shaped[np.ndarray, " cluster"], Float[np.ndarray, "cluster value"]]:
    """The clusters in order, and the sums of each value in each of them."""
    kept, owner = np.unique(clusters, return_inverse=True)
    size = len(owner)
    owners = sparse.csr_array((np.ones(size), (owner, np.arange(size))), shape=(len(kept), size))
    return kept, owners @ values


def kish(weight: Float[np.ndarray, " cluster"]) -> float:
    """Clusters of equal size that would be worth as much as these (Kish 1965): (sum w)^2 / sum w^2.

    >>> kish(np.array([3.0, 3.0, 3.0]))
    3.0
    """
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0


def least_icc(sums: ClusterSums) -> Float[np.ndarray, " group"]:
    """Intraclass correlation that the proportion of each group is taken to have at least.

    The one pooled over all groups of the metric, and not below 0.05: with few clusters a small one cannot be
    told from none. Where fewer than three clusters hold the rarer outcome, 0.2: the sample cannot show how
    that outcome clusters, and without this floor an interval at p = 0.02 covers 87 % instead of 95 %.
    """
    holds = (sums.x > 0).astype(np.float64), (sums.x < sums.w).astype(np.float64)
    rarer = np.minimum(*(sums.total(outcome) for outcome in holds))
    floor = np.where(rarer < _SHOWING_CLUSTERS, _UNSEEN_ICC, LEAST_ICC)
    return np.maximum(_pooled_icc(sums), floor)


def _pooled_icc(sums: ClusterSums) -> float:
    """Intraclass correlation of proportions, pooled over all groups by analysis of variance.

    The share of the variance that lies between clusters (Donner 1986), for 0/1 observations of which each
    cluster's sum ``x`` of ``w`` is known. One number for all groups of a metric: within a small group it
    cannot be told.

    Returns:
        Between 0 and 1; 0 where nothing can be told (every cluster holds one observation).
    """
    held = sums.w > 0
    group, x, w = sums.group[held], sums.x[held], sums.w[held]
    n = np.bincount(group, w, minlength=sums.n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(group, x, minlength=sums.n_groups) / n
        share = x / w
        between = float((w * (share - mean[group]) ** 2).sum())
        within = float((x * (1 - share)).sum())
        spread = np.nansum(n - np.bincount(group, w**2, minlength=sums.n_groups) / n)
    free_between = len(w) - len(np.unique(group))
    free_within = float(w.sum()) - len(w)
    if free_between <= 0 or free_within <= 0:
        return 0.0
    size = float(spread) / free_between
    mean_between, mean_within = between / free_between, within / free_within
    total = mean_between + (size - 1) * mean_within
    return float(np.clip((mean_between - mean_within) / total, 0.0, 1.0)) if total > 0 else 0.0
