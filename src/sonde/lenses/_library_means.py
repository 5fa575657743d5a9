"""Means with intervals that take whole libraries as independent, for any cut of the quizzes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from sonde.results.clusters import ClusterSums
from sonde.results.estimate import ratios
from sonde.results.intervals import Kind
from sonde.results.rows import rows_of
from sonde.results.scores import Score

CLUSTER = "library"


def means(
    frame: pl.DataFrame,
    values: Mapping[str, pl.Expr],
    template: Score,
    *,
    by: str | None = None,
    name: str = "",
    minimum: int = 1,
    kinds: Kind | Mapping[str, Kind] = "proportion",
) -> Iterator[tuple[str, Score]]:
    """The mean of each value in each group, with its interval; rows without a value do not count.

    Args:
        frame: One row a quiz, with a column ``library``.
        values: What is averaged, by any name.
        template: What the scores share; a group's dimension is added to its own.
        by: Column that makes groups; None takes all rows as one.
        name: The dimension that the groups are values of; the column's name where none is given.
        minimum: Fewest quizzes that a group needs.
        kinds: What the values are, all alike or by name; ``difference``: of 0/1, paired within a row.

    Yields:
        The name of the value, and its score without a metric of its own.
    """
    keyed = frame.with_columns(_value=pl.lit("") if by is None else pl.col(by).cast(pl.String))
    keyed = keyed.filter(pl.col("_value").is_not_null())
    sizes = keyed.group_by("_value").len().filter(pl.col("len") >= minimum).sort("_value")
    if sizes.is_empty():
        return
    sums = (
        keyed.join(sizes.select("_value").with_row_index("_group"), on="_value")
        .group_by("_group", CLUSTER)
        .agg(
            *(value.cast(pl.Float64).sum().alias(f"x.{one}") for one, value in values.items()),
            *(value.is_not_null().sum().cast(pl.Float64).alias(f"w.{one}") for one, value in values.items()),
            *((value.cast(pl.Float64) ** 2).sum().alias(f"s.{one}") for one, value in values.items()),
        )
        .sort("_group", CLUSTER)
    )
    group = sums["_group"].cast(pl.Int64).to_numpy()
    cluster = (sums[CLUSTER].rank("dense").cast(pl.Int64) - 1).to_numpy()
    groups = sizes["_value"].to_list()
    templates = [template if by is None else template.within((name or by, value)) for value in groups]
    for measured in values:
        x, w, squares = (sums[f"{part}.{measured}"].to_numpy() for part in "xws")
        held = ClusterSums(group, cluster, x, w, len(templates))
        kind = kinds if isinstance(kinds, str) else kinds[measured]
        apart = held.total(squares) if kind == "difference" else None
        for score in rows_of(ratios(held, kind, squares=apart), templates, held.total(held.w)):
            yield measured, score
