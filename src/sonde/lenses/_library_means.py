"""Means with intervals that take whole libraries as independent, for any cut of the quizzes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.results.inference import ClusterSums, Estimates, ci_method, clustered_ratio
from sonde.results.scores import Score

METHOD = "clustered jackknife"
CLUSTER = "library"


def means(
    frame: pl.DataFrame,
    values: Mapping[str, pl.Expr],
    template: Score,
    *,
    by: str | None = None,
    prefix: str = "",
    minimum: int = 1,
) -> Iterator[tuple[str, Score]]:
    """The mean of each value in each group, with its interval; rows without a value do not count.

    Args:
        frame: One row a quiz, with a column ``library``.
        values: What is averaged, by any name.
        template: What the scores share; the slice is made of its own and the group's.
        by: Column that makes groups; None takes all rows as one.
        prefix: What stands before a group's name in the slice.
        minimum: Fewest quizzes that a group needs.

    Yields:
        The name of the value, and its score without a metric of its own.
    """
    keyed = frame.with_columns(_slice=pl.lit("") if by is None else pl.col(by).cast(pl.String))
    keyed = keyed.filter(pl.col("_slice").is_not_null())
    sizes = keyed.group_by("_slice").len().filter(pl.col("len") >= minimum).sort("_slice")
    if sizes.is_empty():
        return
    sums = (
        keyed.join(sizes.select("_slice").with_row_index("_group"), on="_slice")
        .group_by("_group", CLUSTER)
        .agg(
            *(value.cast(pl.Float64).sum().alias(f"x.{name}") for name, value in values.items()),
            *(
                value.is_not_null().sum().cast(pl.Float64).alias(f"w.{name}")
                for name, value in values.items()
            ),
        )
        .sort("_group", CLUSTER)
    )
    group = sums["_group"].cast(pl.Int64).to_numpy()
    cluster = (sums[CLUSTER].rank("dense").cast(pl.Int64) - 1).to_numpy()
    slices = [_slice(template.slice, prefix, name) for name in sizes["_slice"].to_list()]
    for name in values:
        held = ClusterSums(
            group, cluster, sums[f"x.{name}"].to_numpy(), sums[f"w.{name}"].to_numpy(), len(slices)
        )
        counts = held.total(held.w)
        for score in scores_of(clustered_ratio(held), template, slices, counts.tolist()):
            yield name, score


def scores_of(
    estimates: Estimates, template: Score, slices: Sequence[str], counts: Sequence[float]
) -> Iterator[Score]:
    """One score a slice; slices without a value are left out, intervals without ends are null."""
    columns = (
        estimates.value.tolist(),
        estimates.low.tolist(),
        estimates.high.tolist(),
        estimates.n_clusters.tolist(),
        estimates.too_few.tolist(),
    )
    for name, n, value, low, high, clusters, too_few in zip(slices, counts, *columns, strict=True):
        if not math.isfinite(value):
            continue
        known = math.isfinite(low) and math.isfinite(high)
        yield dataclasses.replace(
            template,
            slice=name,
            value=value,
            ci_low=low if known else None,
            ci_high=high if known else None,
            ci_method=ci_method(METHOD, too_few=too_few),
            n=int(n),
            n_clusters=int(clusters),
        )


def _slice(outer: str, prefix: str, name: str) -> str:
    own = f"{prefix}={name}" if prefix else ""
    parts = [part for part in ("" if outer == "all" else outer, own) if part]
    return ";".join(parts) or "all"
