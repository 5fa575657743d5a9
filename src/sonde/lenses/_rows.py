"""From values of examples to rows of scores, with intervals clustered as the examples are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sonde.results.clusters import sums_of
from sonde.results.estimate import Estimates, ratios
from sonde.results.intervals import Kind
from sonde.results.rows import rows_of
from sonde.results.scores import Score
from sonde.results.seeds import BySeed, trained_difference, trained_mean


def mean_rows(
    template: Score,
    values: Float[np.ndarray, "row example"],
    clusters: Int[np.ndarray, " example"],
    fields: Sequence[Mapping[str, Any]],
    kind: Kind = "proportion",
) -> list[Score]:
    """Means over examples, one row each.

    Args:
        template: What the rows share.
        values: For example whether each example was classified right.
        clusters: Cluster of each example.
        fields: What sets each row apart.
        kind: What the values are.
    """
    found = ratios(sums_of(np.asarray(values, dtype=np.float64), clusters), kind)
    return filled(template, found, values.shape[1], fields)


def difference_row(
    template: Score,
    first: Float[np.ndarray, " example"],
    second: Float[np.ndarray, " example"],
    clusters: Int[np.ndarray, " example"],
    fields: Mapping[str, Any],
) -> Score:
    """The difference of two means of what lies between 0 and 1, over the same examples."""
    one, two = (np.asarray(side, dtype=np.float64)[None] for side in (first, second))
    return filled(template, trained_difference(one, two, clusters), one.shape[1], [fields])[0]


def trained_row(
    template: Score, values: BySeed, clusters: Int[np.ndarray, " example"], fields: Mapping[str, Any]
) -> Score:
    """The mean over seeds of what was trained; its interval holds both seeds and clusters.

    Args:
        template: What the row carries besides.
        values: One row a seed, each value between 0 and 1.
        clusters: Cluster of each example.
        fields: What the row has of its own, for example ``seeds``.
    """
    return filled(template, trained_mean(values, clusters), values.shape[1], [fields])[0]


def trained_difference_row(
    template: Score,
    first: BySeed,
    second: BySeed,
    clusters: Int[np.ndarray, " example"],
    fields: Mapping[str, Any],
) -> Score:
    """The difference of two such means over the same examples; see `sonde.results.seeds`."""
    return filled(template, trained_difference(first, second, clusters), first.shape[1], [fields])[0]


def filled(template: Score, found: Estimates, n: int, fields: Sequence[Mapping[str, Any]]) -> list[Score]:
    """One row an estimate.

    Args:
        template: What the rows share.
        found: The estimates.
        n: Examples behind each.
        fields: What sets each row apart.
    """
    templates = [dataclasses.replace(template, **own) for own in fields]
    return list(rows_of(found, templates, [n] * len(templates)))
