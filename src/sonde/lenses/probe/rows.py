"""From predictions to rows of scores, with intervals clustered as the examples are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.stats import rankdata

from sonde.lenses._rows import filled
from sonde.results.estimate import bootstrap, jackknife
from sonde.results.scores import Score

BEST = ("selection", "best")
"""Dimension of the layer that was chosen on validation."""


def r2_rows(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predicted: Float[np.ndarray, "row example"],
    clusters: Int[np.ndarray, " example"],
    fields: Sequence[Mapping[str, Any]],
) -> list[Score]:
    """Shares of the variance explained."""
    rows: list[Score] = []
    weight = np.bincount(clusters).astype(np.float64)
    centred = gold - gold.mean()
    for values, own in zip(predicted, fields, strict=True):
        columns = np.column_stack([np.ones(len(gold)), centred, centred**2, (gold - values) ** 2])
        totals = np.stack([np.bincount(clusters, column) for column in columns.T], axis=1)
        rows += filled(template, jackknife(_r2, totals, weight, "r2"), len(gold), [own])
    return rows


def _r2(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    count, total, squares, errors = totals.T
    return 1.0 - errors / (squares - total**2 / count)


def spearman_row(
    template: Score,
    gold: Float[np.ndarray, " example"],
    predicted: Float[np.ndarray, " example"],
    clusters: Int[np.ndarray, " example"],
    fields: Mapping[str, Any],
    seed: int,
) -> Score:
    """Spearman's rank correlation; ranks are taken anew in every draw."""
    size = len(gold)
    owners = sparse.csr_array((np.ones(size), (clusters, np.arange(size))))

    def statistic(weights: Float[np.ndarray, "replicate example"]) -> Float[np.ndarray, " replicate"]:
        return np.array([_weighted_spearman(gold, predicted, weight) for weight in weights])

    weight = np.bincount(clusters).astype(np.float64)
    found = bootstrap(statistic, owners, weight, np.random.default_rng(seed), "correlation")
    return filled(template, found, size, [fields])[0]


def _weighted_spearman(
    x: Float[np.ndarray, " example"], y: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> float:
    """Pearson's correlation of mid-ranks in a sample that holds each example ``weight`` times."""
    a, b = (_mid_ranks(values, weight) for values in (x, y))
    total = weight.sum()
    a, b = a - (weight @ a) / total, b - (weight @ b) / total
    scale = np.sqrt((weight @ a**2) * (weight @ b**2))
    return float(weight @ (a * b) / scale) if scale > 0 else np.nan


def _mid_ranks(
    values: Float[np.ndarray, " example"], weight: Float[np.ndarray, " example"]
) -> Float[np.ndarray, " example"]:
    level = rankdata(values, method="dense").astype(np.int64) - 1
    held = np.bincount(level, weight)
    return (np.cumsum(held) - held / 2)[level]
