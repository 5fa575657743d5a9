"""Scores of predictions for a set of examples: arrays with one column an example, clustered as these are.

What was trained has one row a seed (`trained_rows`); whatever else has rows has one a score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from sonde.results.scores import Score, rows_of
from sonde.stats.estimate import (
    Clusters,
    Contributions,
    Statistic,
    added_up,
    jackknife,
    left_out_one,
    of_ratios,
    ratios,
    sums_of,
)
from sonde.stats.intervals import DIFFERENCE_OF, Kind
from sonde.stats.metrics import r_squared, r_squared_difference, weighted_spearman
from sonde.stats.resampling import BySeed, between_seeds, bootstrap, trained_difference, trained_mean

Fields = Mapping[str, Any]
"""Columns of a score by name."""


def mean_rows(
    template: Score,
    values: Float[np.ndarray, "row example"],
    clusters: Clusters,
    fields: Sequence[Fields] = ({},),
    kind: Kind = "proportion",
) -> list[Score]:
    """Compute means over examples, one score a row of values.

    Args:
        template: What the scores share.
        values: A row a layer, for example whether each example was classified right.
        clusters: Cluster of each example.
        fields: Columns of the score of each row.
        kind: Kind of the values.
    """
    sums = sums_of(np.asarray(values, dtype=np.float64), clusters)
    templates = [dataclasses.replace(template, **own) for own in fields]
    parts = of_ratios(sums, np.unique(clusters), kind)
    counts = [values.shape[1]] * len(templates)
    return list(rows_of(ratios(sums, kind), templates, counts, contributions=parts))


def share_rows(
    template: Score,
    values: Sequence[str] | np.ndarray,
    clusters: Clusters,
    dimension: str,
    among: Sequence[str] | None = None,
) -> list[Score]:
    """Compute the share of examples that have each value; the value becomes a dimension.

    Args:
        template: What the scores share.
        values: The value of each example.
        clusters: Cluster of each example.
        dimension: Name of the dimension.
        categories: The values; None takes those that occur.
    """
    asked = sorted(set(values)) if among is None else among
    fields = [{"dimensions": (*template.dimensions, (dimension, value))} for value in asked]
    held = np.asarray(values, object) == np.array(asked, object)[:, None]
    return mean_rows(template, held, clusters, fields)


def trained_rows(
    template: Score, values: BySeed, clusters: Clusters, *, less: BySeed | None = None
) -> list[Score]:
    """Compute the mean over seeds and examples of numbers in [0, 1], or the difference of two such means.

    Args:
        template: Further columns of the score, for example ``seeds``.
        values: One row a seed; a single row for what was not trained by chance.
        clusters: Cluster of each example.
        baseline: Subtracted, over the same examples; its seeds are independent of the others.

    Returns:
        One score, whose interval holds both seeds and clusters.
    """
    own = np.atleast_2d(np.asarray(values, dtype=np.float64))
    apart, sides, kind = own.mean(0), [own], "proportion"
    if less is None:
        found = trained_mean(own, clusters)
    else:
        other = np.atleast_2d(np.asarray(less, dtype=np.float64))
        found = trained_difference(own, other, clusters)
        apart, sides, kind = apart - other.mean(0), [own, other], "difference"
    noise = tuple(term for side in sides if (term := between_seeds(side))[1])
    parts = of_ratios(sums_of(apart[None], clusters), np.unique(clusters), kind, noise)
    return list(rows_of(found, [template], [own.shape[1]], contributions=parts))


def statistic_rows(
    template: Score,
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    kind: Kind,
    *,
    n: float | None = None,
    seed: int | None = None,
    clusters: np.ndarray | None = None,
) -> list[Score]:
    """Compute a function of sums over clusters, for example of `sonde.results.group_means.cells`.

    Args:
        template: Further columns of the score.
        statistic: Maps rows of totals to one number a row.
        sums: Each cluster's part of the totals.
        weight: Observations in each cluster.
        kind: Kind of the number.
        n: Number of observations; None sums ``weight``.
        seed: Seed of the cluster bootstrap, for statistics without derivatives (ranks, absolute values); None
            leaves one cluster out at a time.
        clusters: Name or number of each cluster; without them the score cannot be compared with another.

    Returns:
        One score; none where the statistic is not defined.
    """
    parts: list[Contributions] | None = None
    if seed is not None:
        found = bootstrap(statistic, sums, weight, np.random.default_rng(seed), kind)
    else:
        dense = sums.toarray() if isinstance(sums, sparse.csr_array) else sums
        found = jackknife(statistic, dense, weight, kind)
        if clusters is not None:
            moved = left_out_one(statistic, dense)
            parts = [Contributions(clusters=clusters, weight=weight, moved=moved, kind=kind)]
    return list(rows_of(found, [template], [weight.sum() if n is None else n], contributions=parts))


def r2_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predicted: Float[np.ndarray, "row example"],
    clusters: Clusters,
    fields: Sequence[Fields] = ({},),
) -> list[Score]:
    """Compute the share of a number's variance that predictions explain, one score a row of predictions."""
    centred = gold - gold.mean()
    rows: list[Score] = []
    for values, own in zip(predicted, fields, strict=True):
        columns = np.column_stack([np.ones(len(gold)), centred, centred**2, (gold - values) ** 2])
        kept, totals = added_up(columns, clusters)
        named = dataclasses.replace(template, **own)
        rows += statistic_rows(named, r_squared, totals, totals[:, 0], "r2", clusters=kept)
    return rows


def r2_difference_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predicted: Float[np.ndarray, " example"],
    other: Float[np.ndarray, " example"],
    clusters: Clusters,
) -> list[Score]:
    """Compute how much more variance one set of predictions explains than another, paired by example."""
    centred = gold - gold.mean()
    errors = [(gold - values) ** 2 for values in (predicted, other)]
    kept, totals = added_up(np.column_stack([np.ones(len(gold)), centred, centred**2, *errors]), clusters)
    kind = DIFFERENCE_OF["r2"]
    return statistic_rows(template, r_squared_difference, totals, totals[:, 0], kind, clusters=kept)


def spearman_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predicted: Float[np.ndarray, " example"],
    clusters: Clusters,
    seed: int,
) -> list[Score]:
    """Compute Spearman's rank correlation; ranks are recomputed in every bootstrap sample."""
    size = len(gold)
    owner = np.unique(clusters, return_inverse=True)[1]
    owners = sparse.csr_array((np.ones(size), (owner, np.arange(size))))

    def statistic(weights: Float[np.ndarray, "replicate example"]) -> Float[np.ndarray, " replicate"]:
        return np.array([weighted_spearman(gold, predicted, weight) for weight in weights])

    return statistic_rows(
        template, statistic, owners, np.bincount(owner).astype(np.float64), "correlation", seed=seed
    )
