"""Calibration, and how loss goes with frequency: the figures whose intervals are drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import sparse

from sonde.base.fingerprint import derive_seed
from sonde.lenses.surprisal.rows import cluster_sums
from sonde.results.estimate import Statistic, bootstrap, ratios
from sonde.results.intervals import Kind
from sonde.results.metrics import equal_mass_bins, expected_calibration_error, spearman
from sonde.results.rows import rows_of
from sonde.results.scores import Score

# What is averaged in each bin of confidence: its column, and what kind of number it is.
_CURVES: tuple[tuple[str, str, Kind], ...] = (
    ("accuracy", "top1", "proportion"),
    ("confidence", "confidence", "unit"),
)


def calibration(frame: pl.DataFrame, template: Score, bins: int) -> Iterator[Score]:
    """Accuracy and confidence of equally wide bins, and the expected calibration error of both kinds of bin.

    Args:
        frame: `Sums.calibration`.
        template: What the scores share.
        bins: Number of bins, the one that the sums were made with.
    """
    for language, held in sorted(frame.partition_by("language", as_dict=True).items()):
        named = dataclasses.replace(template, language=str(language[0]))
        numbered = held.with_columns(_cluster=(pl.col("cluster").rank("dense") - 1).cast(pl.Int64))
        yield from _curve(numbered, named, bins)
        steps = numbered.group_by("step").agg(pl.col("n").sum()).sort("step")
        mass = pl.Series("mass", equal_mass_bins(steps["n"].cast(pl.Float64).to_numpy(), bins))
        binned = numbered.join(steps.select("step").with_columns(mass), on="step")
        for name, column in (("equal_width", "bin"), ("equal_mass", "mass")):
            yield from _error(binned, column, dataclasses.replace(named, binning=name, k=bins), bins)


def frequency(
    frame: pl.DataFrame, name: str, template: Score, minimum: int, trained: pl.DataFrame | None = None
) -> Iterator[Score]:
    """Spearman's correlation of a slice's mean loss and its frequency, over the slices of one dimension.

    A mean over one or two occurrences is mostly noise, and most slices are as rare as that: beside the
    correlation over all slices stands that over those with enough occurrences, which ``k`` names.

    Args:
        frame: Sums of the dimension, by ``language, slice, cluster``.
        name: The dimension, for the column ``unit``.
        template: What the scores share.
        minimum: Occurrences that are enough.
        trained: ``slice, count`` in the model's training data; a slice that it lacks was never seen. None
            where nothing is known.
    """
    for language, every in sorted(frame.partition_by("language", as_dict=True).items()):
        for least in (None, minimum):
            often = pl.col("n").sum().over("slice") >= (least or 1)
            named = dataclasses.replace(template, language=str(language[0]), unit=name, k=least)
            yield from _frequency(every.filter(often), named, trained)


def _frequency(held: pl.DataFrame, named: Score, trained: pl.DataFrame | None) -> Iterator[Score]:
    if held.is_empty():
        return
    slices = held.select("slice").unique().sort("slice")
    sums, weight = _matrix(held)
    corpus = dataclasses.replace(named, metric="spearman_frequency_corpus", n=slices.height)
    yield from _drawn(_loss_by_count(None), sums, weight, corpus, "correlation")
    if trained is not None:
        seen = slices.join(trained, on="slice", how="left", maintain_order="left")["count"]
        known = seen.fill_null(0).cast(pl.Float64).to_numpy()
        training = dataclasses.replace(named, metric="spearman_frequency_training", n=slices.height)
        yield from _drawn(_loss_by_count(known), sums, weight, training, "correlation")


def _curve(frame: pl.DataFrame, template: Score, bins: int) -> Iterator[Score]:
    sums = frame.group_by("bin", "_cluster").agg(pl.col("n", "confidence", "top1").sum())
    held = sums.rename({"bin": "_group"})
    templates = [
        template.within(("confidence", f"{index / bins:.4g}-{(index + 1) / bins:.4g}"))
        for index in range(bins)
    ]
    for metric, column, kind in _CURVES:
        ratio = cluster_sums(held, column, "n", bins)
        named = [dataclasses.replace(one, metric=metric) for one in templates]
        yield from rows_of(ratios(ratio, kind), named, ratio.total(ratio.w))


def _error(frame: pl.DataFrame, column: str, template: Score, bins: int) -> Iterator[Score]:
    sums = frame.group_by(column, "_cluster").agg(pl.col("n", "confidence", "top1").sum())
    at = (sums["_cluster"].to_numpy(), sums[column].to_numpy())
    table = np.zeros((int(at[0].max(initial=0)) + 1, 3, bins))
    for row, values in enumerate(("confidence", "top1", "n")):
        table[at[0], row, at[1]] = sums[values].to_numpy()
    weight = table[:, 2].sum(axis=1)

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        cells = totals.reshape(len(totals), 3, bins)
        return expected_calibration_error(cells[:, 0], cells[:, 1], cells[:, 2])

    named = dataclasses.replace(template, metric="ece", n=int(weight.sum()))
    return _drawn(statistic, table.reshape(len(table), -1), weight, named, "unit")


def _matrix(frame: pl.DataFrame) -> tuple[sparse.csr_array, Float[np.ndarray, " cluster"]]:
    """Nats, then counts, of every slice in each cluster, and the size of the clusters."""
    codes = frame.select(pl.col("cluster", "slice").rank("dense").cast(pl.Int64) - 1)
    row, column = codes["cluster"].to_numpy(), codes["slice"].to_numpy()
    size = int(column.max(initial=0)) + 1
    counts = frame["n"].cast(pl.Float64).to_numpy()
    table = sparse.coo_array(
        (
            np.concatenate([frame["nats"].to_numpy(), counts]),
            (np.tile(row, 2), np.concatenate([column, column + size])),
        )
    )
    return table.tocsr(), np.bincount(row, counts)


def _loss_by_count(known: Float[np.ndarray, " slice"] | None) -> Statistic:
    """Correlation with counts that are known, or else with those of the draw itself."""

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        nats, counts = np.split(totals, 2, axis=1)
        means = np.divide(nats, counts, out=np.full_like(nats, np.nan), where=counts > 0)
        return spearman(means, counts if known is None else np.broadcast_to(known, means.shape))

    return statistic


def _drawn(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    template: Score,
    kind: Kind,
) -> Iterator[Score]:
    """One score with a drawn interval; none for NaN."""
    # The keys are those of the first schema: a number that did not change keeps its interval.
    about = {"name": template.unit or template.binning, "k": template.k}
    drawn_by = {name: value for name, value in about.items() if value is not None}
    seed = derive_seed(template.seed, template.language, template.metric, drawn_by)
    drawn = bootstrap(statistic, sums, weight, np.random.default_rng(seed), kind)
    return rows_of(drawn, [template], [template.n])
