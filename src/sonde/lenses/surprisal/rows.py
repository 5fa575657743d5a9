"""From sums to scores: every ratio with its clustered interval."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses.surprisal.sums import Sums
from sonde.results.inference import ClusterSums, Estimates, ci_method, clustered_ratio
from sonde.results.scores import Score

BITS = 1.0 / math.log(2.0)

JACKKNIFE = "clustered jackknife"

# Metric: column of the numerator, column of the denominator, factor.
Ratios = Mapping[str, tuple[str, str, float]]
_PER_SUBWORD: Ratios = {
    "nats": ("nats", "n", 1.0),
    "bits": ("nats", "n", BITS),
    "top1": ("top1", "n", 1.0),
}
_FULL: Ratios = {
    **_PER_SUBWORD,
    "top5": ("top5", "n", 1.0),
    "mrr": ("reciprocal", "n", 1.0),
    "entropy": ("entropy", "n", 1.0),
    "nats_per_token": ("nats", "tokens", 1.0),
}
_OVERALL: Ratios = {**_FULL, "bits_per_byte": ("nats", "text_bytes", BITS)}
_PER_CHARACTER: Ratios = {
    "bits_per_character": ("nats", "characters", BITS),
    "coverage": ("covered", "characters", 1.0),
}
_NAMES: Ratios = {"nats_per_token": ("nats", "tokens", 1.0)}


def overall(sums: Sums, template: Score) -> Iterator[Score]:
    """Scores of all subwords, of code and of layout."""
    everything = sums.slices["all"]
    yield from table(everything, _OVERALL, template, minimum=1)
    per_character = everything.filter(pl.col("slice") == "all").join(
        sums.characters, on=["language", "cluster"]
    )
    yield from table(per_character, _PER_CHARACTER, template, minimum=1)


def by_slice(sums: Sums, template: Score, minimum: int) -> Iterator[Score]:
    """Scores of every slice of every dimension that holds at least ``minimum`` subwords."""
    for dimension, frame in sums.slices.items():
        if dimension == "all":
            continue
        named = frame.with_columns(slice=pl.lit(f"{dimension}=") + pl.col("slice"))
        ratios = _PER_SUBWORD if dimension == "subword" else _FULL
        yield from table(named, ratios, template, minimum=minimum, counted="n")
    named = sums.names.with_columns(slice=pl.lit("name=") + pl.col("slice"))
    yield from table(named, _NAMES, template, minimum=minimum, counted="tokens")


def table(
    frame: pl.DataFrame, ratios: Ratios, template: Score, *, minimum: int, counted: str = "n"
) -> Iterator[Score]:
    """Ratios of sums by language and slice.

    Args:
        frame: ``language, slice, cluster`` and the columns to be added up.
        ratios: For each metric the column above, the column below and a factor.
        template: What the scores share.
        minimum: What a slice needs of ``counted`` for a row of its own.
        counted: A column.
    """
    groups = frame.group_by("language", "slice").agg(pl.col(counted).sum().alias("_counted"))
    groups = groups.filter(pl.col("_counted") >= minimum).sort("language", "slice").with_row_index("_group")
    if groups.is_empty():
        return
    held = frame.join(groups, on=["language", "slice"]).with_columns(
        _cluster=pl.col("cluster").rank("dense") - 1
    )
    languages, slices = groups["language"].to_list(), groups["slice"].to_list()
    for metric, (over, under, factor) in ratios.items():
        sums = cluster_sums(held, over, under, groups.height)
        yield from scores_of(
            clustered_ratio(sums),
            [
                dataclasses.replace(template, language=language, slice=name, metric=metric)
                for language, name in zip(languages, slices, strict=True)
            ],
            sums.total(sums.w),
            factor=factor,
            method=JACKKNIFE,
        )


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


def scores_of(
    estimates: Estimates,
    templates: Sequence[Score],
    counts: Float[np.ndarray, " group"],
    *,
    method: str,
    factor: float = 1.0,
) -> Iterator[Score]:
    """One score an estimate; those without a value are left out, intervals without ends are null."""
    columns = (
        (estimates.value * factor).tolist(),
        (estimates.low * factor).tolist(),
        (estimates.high * factor).tolist(),
        estimates.n_clusters.tolist(),
        estimates.too_few.tolist(),
        counts.tolist(),
    )
    for template, value, low, high, n_clusters, too_few, n in zip(templates, *columns, strict=True):
        if not math.isfinite(value):
            continue
        known = math.isfinite(low) and math.isfinite(high)
        yield dataclasses.replace(
            template,
            value=value,
            ci_low=low if known else None,
            ci_high=high if known else None,
            ci_method=ci_method(method, too_few=too_few),
            n=int(n),
            n_clusters=int(n_clusters),
        )


def _integers(series: pl.Series) -> Int[np.ndarray, " row"]:
    return series.cast(pl.Int64).to_numpy()
