"""Scores of predictions for a set of examples: arrays with one column per example, clustered as these are.

What was trained has one row a seed (`trained_rows`); whatever else has rows has one a score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from sonde.results.scores import Score, estimates_to_scores
from sonde.stats.estimate import (
    Clusters,
    Contributions,
    Statistic,
    cluster_sums,
    estimate_ratios,
    jackknife,
    leave_one_out,
    ratio_contributions,
    sum_by_cluster,
)
from sonde.stats.intervals import DIFFERENCE_OF, Kind
from sonde.stats.metrics import r_squared, r_squared_difference, weighted_spearman
from sonde.stats.resampling import BySeed, bootstrap, difference_by_seed, mean_by_seed, seed_variance

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
        values: A row per layer, for example whether each example was classified right.
        clusters: Cluster of each example.
        fields: Columns of the score of each row.
        kind: Kind of the values.
    """
    sums = cluster_sums(np.asarray(values, dtype=np.float64), clusters)
    templates = [dataclasses.replace(template, **row_fields) for row_fields in fields]
    parts = ratio_contributions(sums, np.unique(clusters), kind)
    counts = [values.shape[1]] * len(templates)
    return list(estimates_to_scores(estimate_ratios(sums, kind), templates, counts, contributions=parts))


def share_rows(
    template: Score,
    values: Sequence[str] | np.ndarray,
    clusters: Clusters,
    dimension: str,
    categories: Sequence[str] | None = None,
) -> list[Score]:
    """Compute the share of examples that have each value; the value becomes a dimension.

    Args:
        template: What the scores share.
        values: The value of each example.
        clusters: Cluster of each example.
        dimension: Name of the dimension.
        categories: The values; None takes those that occur.
    """
    levels = sorted(set(values)) if categories is None else categories
    fields = [{"dimensions": (*template.dimensions, (dimension, value))} for value in levels]
    matches = np.asarray(values, object) == np.array(levels, object)[:, None]
    return mean_rows(template, matches, clusters, fields)


def trained_rows(
    template: Score, values: BySeed, clusters: Clusters, *, baseline: BySeed | None = None
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
    seed_values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    example_means, sides, kind = seed_values.mean(0), [seed_values], "proportion"
    if baseline is None:
        estimates = mean_by_seed(seed_values, clusters)
    else:
        baseline_values = np.atleast_2d(np.asarray(baseline, dtype=np.float64))
        estimates = difference_by_seed(seed_values, baseline_values, clusters)
        example_means, sides, kind = (
            example_means - baseline_values.mean(0),
            [seed_values, baseline_values],
            "difference",
        )
    noise = tuple(term for side in sides if (term := seed_variance(side))[1])
    parts = ratio_contributions(cluster_sums(example_means[None], clusters), np.unique(clusters), kind, noise)
    return list(estimates_to_scores(estimates, [template], [seed_values.shape[1]], contributions=parts))


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
        statistic: Maps rows of totals to one number per row.
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
        estimates = bootstrap(statistic, sums, weight, np.random.default_rng(seed), kind)
    else:
        dense = sums.toarray() if isinstance(sums, sparse.csr_array) else sums
        estimates = jackknife(statistic, dense, weight, kind)
        if clusters is not None:
            deviations = leave_one_out(statistic, dense)
            parts = [Contributions(clusters=clusters, weight=weight, deviations=deviations, kind=kind)]
    return list(
        estimates_to_scores(estimates, [template], [weight.sum() if n is None else n], contributions=parts)
    )


def r2_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predictions: Float[np.ndarray, "row example"],
    clusters: Clusters,
    fields: Sequence[Fields] = ({},),
) -> list[Score]:
    """Compute the share of a number's variance that predictions explain, one score a row of predictions."""
    return [
        score
        for values, row_fields in zip(predictions, fields, strict=True)
        for score in _error_rows(
            dataclasses.replace(template, **row_fields), gold, [values], clusters, r_squared, "r2"
        )
    ]


def r2_difference_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predictions: Float[np.ndarray, " example"],
    other_predictions: Float[np.ndarray, " example"],
    clusters: Clusters,
) -> list[Score]:
    """Compute how much more variance one set of predictions explains than another, paired by example."""
    return _error_rows(
        template, gold, [predictions, other_predictions], clusters, r_squared_difference, DIFFERENCE_OF["r2"]
    )


def _error_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predictions: Sequence[Float[np.ndarray, " example"]],
    clusters: Clusters,
    statistic: Statistic,
    kind: Kind,
) -> list[Score]:
    """Compute a function of a number's count, sum and squares and of the squared errors of predictions."""
    deviations = gold - gold.mean()
    errors = [(gold - values) ** 2 for values in predictions]
    columns = np.column_stack([np.ones(len(gold)), deviations, deviations**2, *errors])
    names, totals = sum_by_cluster(columns, clusters)
    return statistic_rows(template, statistic, totals, totals[:, 0], kind, clusters=names)


def spearman_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predictions: Float[np.ndarray, " example"],
    clusters: Clusters,
    seed: int,
) -> list[Score]:
    """Compute Spearman's rank correlation; ranks are recomputed in every bootstrap sample."""
    size = len(gold)
    owner = np.unique(clusters, return_inverse=True)[1]
    owners = sparse.csr_array((np.ones(size), (owner, np.arange(size))))

    def statistic(weights: Float[np.ndarray, "replicate example"]) -> Float[np.ndarray, " replicate"]:
        return np.array([weighted_spearman(gold, predictions, weight) for weight in weights])

    return statistic_rows(
        template, statistic, owners, np.bincount(owner).astype(np.float64), "correlation", seed=seed
    )
