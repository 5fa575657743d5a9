"""From values of examples to rows of scores, with intervals clustered as the examples are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sonde.results.inference import ClusterSums, Estimates, ci_method, clustered_difference, clustered_ratio
from sonde.results.scores import Score

JACKKNIFE = "clustered jackknife"


def mean_rows(
    template: Score,
    values: Float[np.ndarray, "row example"],
    clusters: Int[np.ndarray, " example"],
    fields: Sequence[Mapping[str, Any]],
) -> list[Score]:
    """Means over examples, one row each.

    Args:
        template: What the rows share.
        values: For example whether each example was told right.
        clusters: Cluster of each example.
        fields: What sets each row apart.
    """
    found = clustered_ratio(_sums(np.asarray(values, dtype=np.float64), clusters))
    return rows_of(template, found, values.shape[1], fields, JACKKNIFE)


def difference_row(
    template: Score,
    first: Float[np.ndarray, " example"],
    second: Float[np.ndarray, " example"],
    clusters: Int[np.ndarray, " example"],
    fields: Mapping[str, Any],
) -> Score:
    """The difference of two means over the same examples."""
    one, two = (_sums(np.asarray(side, dtype=np.float64)[None], clusters) for side in (first, second))
    return rows_of(template, clustered_difference(one, two), len(first), [fields], f"paired {JACKKNIFE}")[0]


def _sums(values: Float[np.ndarray, "row example"], clusters: Int[np.ndarray, " example"]) -> ClusterSums:
    kept, index = np.unique(clusters, return_inverse=True)
    rows = len(values)
    place = (np.arange(rows)[:, None] * len(kept) + index).ravel()
    x = np.bincount(place, values.ravel(), minlength=rows * len(kept))
    w = np.tile(np.bincount(index, minlength=len(kept)).astype(np.float64), rows)
    return ClusterSums(
        group=np.repeat(np.arange(rows), len(kept)), cluster=np.tile(kept, rows), x=x, w=w, n_groups=rows
    )


def rows_of(
    template: Score, found: Estimates, n: int, fields: Sequence[Mapping[str, Any]], method: str
) -> list[Score]:
    """One row an estimate; an end of an interval that is not known is null.

    Args:
        template: What the rows share.
        found: The estimates.
        n: Examples behind each.
        fields: What sets each row apart.
        method: Name of the intervals' method.
    """
    return [
        dataclasses.replace(
            template,
            value=float(found.value[row]),
            ci_low=_finite(found.low[row]),
            ci_high=_finite(found.high[row]),
            ci_method=ci_method(method, too_few=bool(found.too_few[row])),
            n=n,
            n_clusters=int(found.n_clusters[row]),
            **own,
        )
        for row, own in enumerate(fields)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
