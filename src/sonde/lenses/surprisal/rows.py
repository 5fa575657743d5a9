"""From sums to scores: every ratio with its clustered interval."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.lenses.surprisal.sums import Sums
from sonde.results.clusters import ClusterSums
from sonde.results.dimensions import Dimensions
from sonde.results.estimate import ratios
from sonde.results.intervals import Kind
from sonde.results.rows import rows_of
from sonde.results.scores import Score

BITS = 1.0 / math.log(2.0)

# Metric: column of the numerator, column of the denominator, factor, what the ratio is.
Ratios = Mapping[str, tuple[str, str, float, Kind]]
_PER_SUBWORD: Ratios = {
    "nats": ("nats", "n", 1.0, "nonnegative"),
    "bits": ("nats", "n", BITS, "nonnegative"),
    "top1": ("top1", "n", 1.0, "proportion"),
}
_FULL: Ratios = {
    **_PER_SUBWORD,
    "top5": ("top5", "n", 1.0, "proportion"),
    "mrr": ("reciprocal", "n", 1.0, "unit"),
    "entropy": ("entropy", "n", 1.0, "nonnegative"),
    "nats_per_token": ("nats", "tokens", 1.0, "nonnegative"),
}
_OVERALL: Ratios = {**_FULL, "bits_per_byte": ("nats", "text_bytes", BITS, "nonnegative")}
_PER_CHARACTER: Ratios = {
    "bits_per_character": ("nats", "characters", BITS, "nonnegative"),
    "coverage": ("covered", "characters", 1.0, "proportion"),
}
_NAMES: Ratios = {"nats_per_token": ("nats", "tokens", 1.0, "nonnegative")}

_CHANGE_OF: Mapping[Kind, Kind] = {"nonnegative": "real", "proportion": "difference", "unit": "difference"}
_UNCHANGED = "coverage"


def overall(sums: Sums, template: Score, *, change: bool = False) -> Iterator[Score]:
    """Scores of all subwords, of code and of layout; of sums of changes, their changes."""
    everything = sums.slices["all"]
    yield from table(everything, _asked(_OVERALL, change), template, minimum=1, name=_text)
    per_character = everything.filter(pl.col("slice") == "all").join(
        sums.characters, on=["language", "cluster"]
    )
    yield from table(per_character, _asked(_PER_CHARACTER, change), template, minimum=1)


def by_slice(sums: Sums, template: Score, minimum: int, *, change: bool = False) -> Iterator[Score]:
    """Scores of every slice of every dimension that holds at least ``minimum`` subwords."""
    for dimension, frame in sums.slices.items():
        if dimension == "all":
            continue
        asked = _PER_SUBWORD if dimension == "subword" else _FULL
        yield from table(frame, _asked(asked, change), template, minimum=minimum, name=_by(dimension))
    yield from table(
        sums.names, _asked(_NAMES, change), template, minimum=minimum, counted="tokens", name=_by("name")
    )


def _by(dimension: str) -> Callable[[str], Dimensions]:
    """Slices of one dimension."""
    return lambda value: ((dimension, value),)


def _text(part: str) -> Dimensions:
    """The overall slices: all of the text, or a part of it."""
    return () if part == "all" else (("text", part),)


def _asked(metrics: Ratios, change: bool) -> Ratios:
    """What is asked of sums, or of how far sums changed: then what had bounds has others."""
    if not change:
        return metrics
    return {
        metric: (over, under, factor, _CHANGE_OF[kind])
        for metric, (over, under, factor, kind) in metrics.items()
        if metric != _UNCHANGED
    }


def table(
    frame: pl.DataFrame,
    asked: Ratios,
    template: Score,
    *,
    minimum: int,
    counted: str = "n",
    name: Callable[[str], Dimensions] = lambda _: (),
) -> Iterator[Score]:
    """Ratios of sums by language and slice.

    Args:
        frame: ``language, slice, cluster`` and the columns to be added up.
        asked: For each metric the column above, the column below, a factor and what the ratio is; a
            ``difference`` has the squares of what it adds up in a column that ends in ``_apart``.
        template: What the scores share.
        minimum: What a slice needs of ``counted`` for a row of its own.
        counted: A column.
        name: From a slice to the dimensions that it has inside those of the template.
    """
    groups = frame.group_by("language", "slice").agg(pl.col(counted).sum().alias("_counted"))
    groups = groups.filter(pl.col("_counted") >= minimum).sort("language", "slice").with_row_index("_group")
    if groups.is_empty():
        return
    held = frame.join(groups, on=["language", "slice"]).with_columns(
        _cluster=pl.col("cluster").rank("dense") - 1
    )
    templates = [
        dataclasses.replace(template.within(*name(part)), language=language)
        for language, part in groups.select("language", "slice").iter_rows()
    ]
    for metric, (over, under, factor, kind) in asked.items():
        sums = cluster_sums(held, over, under, groups.height)
        named = [dataclasses.replace(one, metric=metric) for one in templates]
        squares = None
        if kind == "difference":
            apart = cluster_sums(held, f"{over}_apart", under, groups.height)
            squares = apart.total(apart.x)
        yield from rows_of(ratios(sums, kind, squares=squares), named, sums.total(sums.w), factor=factor)


def cluster_sums(frame: pl.DataFrame, over: str, under: str, n_groups: int) -> ClusterSums:
    """Two columns of a frame that numbers its rows' groups (``_group``) and clusters (``_cluster``).

    Sorted, since joins and groupings give rows in any order and sums of real numbers depend on theirs.
    """
    frame = frame.sort("_group", "_cluster")
    return ClusterSums(
        group=_integers(frame["_group"]),
        cluster=_integers(frame["_cluster"]),
        x=frame[over].cast(pl.Float64).to_numpy(),
        w=frame[under].cast(pl.Float64).to_numpy(),
        n_groups=n_groups,
    )


def _integers(series: pl.Series) -> Int[np.ndarray, " row"]:
    return series.cast(pl.Int64).to_numpy()
