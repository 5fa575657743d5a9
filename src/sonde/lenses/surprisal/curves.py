"""Calibration, and how loss goes with frequency: the figures whose intervals are drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import sparse

from sonde.base.fingerprint import derive_seed
from sonde.lenses.surprisal.sums import ratio_of_sums
from sonde.results import Score, cells, means, statistic_rows
from sonde.stats.estimate import Statistic
from sonde.stats.intervals import Kind
from sonde.stats.metrics import equal_mass_bins, expected_calibration_error, spearman

_CURVES = (
    ratio_of_sums("accuracy", "top1", "n", "proportion"),
    ratio_of_sums("confidence", "confidence", "n", "unit"),
)
"""What is averaged in each bin of confidence."""


def score_calibration(frame: pl.DataFrame, template: Score, bins: int) -> Iterator[Score]:
    """Accuracy and confidence of equally wide bins, and the expected calibration error of both kinds of bin.

    Args:
        frame: `sonde.lenses.surprisal.sums.Sums.calibration`.
        template: What the scores share.
        bins: Number of bins, the one that the sums were made with.
    """
    ends = {index: f"{index / bins:.4g}-{(index + 1) / bins:.4g}" for index in range(bins)}
    for language, held in sorted(frame.partition_by("language", as_dict=True).items()):
        named = dataclasses.replace(template, language=str(language[0]))
        yield from means(held, _CURVES, named, by={"confidence": pl.col("bin").replace_strict(ends)})
        steps = held.group_by("step").agg(pl.col("n").sum()).sort("step")
        mass = pl.Series("mass", equal_mass_bins(steps["n"].cast(pl.Float64).to_numpy(), bins))
        binned = held.join(steps.select("step").with_columns(mass), on="step")
        for name, column in (("equal_width", "bin"), ("equal_mass", "mass")):
            yield from _error(binned, column, dataclasses.replace(named, binning=name, k=bins))


def score_frequency(
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
    sums = cells(held, [pl.col("nats"), pl.col("n")], ["slice"])
    weight = np.asarray(sums[:, slices.height :].sum(axis=1))
    corpus = dataclasses.replace(named, metric="spearman_frequency_corpus")
    yield from _bootstrap_score(_loss_by_count(None), sums, weight, corpus, "correlation", slices.height)
    if trained is not None:
        seen = slices.join(trained, on="slice", how="left", maintain_order="left")["count"]
        known = seen.fill_null(0).cast(pl.Float64).to_numpy()
        training = dataclasses.replace(named, metric="spearman_frequency_training")
        yield from _bootstrap_score(
            _loss_by_count(known), sums, weight, training, "correlation", slices.height
        )


def _error(frame: pl.DataFrame, column: str, template: Score) -> list[Score]:
    sums = cells(frame, [pl.col("confidence"), pl.col("top1"), pl.col("n")], [column]).toarray()
    weight = np.split(sums, 3, axis=1)[2].sum(axis=1)
    named = dataclasses.replace(template, metric="ece")
    return _bootstrap_score(_calibration_error, sums, weight, named, "unit")


def _calibration_error(
    totals: Float[np.ndarray, "replicate total"],
) -> Float[np.ndarray, " replicate"]:
    return expected_calibration_error(*np.split(totals, 3, axis=1))


def _loss_by_count(known: Float[np.ndarray, " slice"] | None) -> Statistic:
    """Correlation with counts that are known, or else with those of the draw itself."""

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        nats, counts = np.split(totals, 2, axis=1)
        means = np.divide(nats, counts, out=np.full_like(nats, np.nan), where=counts > 0)
        return spearman(means, counts if known is None else np.broadcast_to(known, means.shape))

    return statistic


def _bootstrap_score(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    template: Score,
    kind: Kind,
    n: int | None = None,
) -> list[Score]:
    """One score with a drawn interval."""
    # The keys are those of the first schema: a number that did not change keeps its interval.
    about = {"name": template.unit or template.binning, "k": template.k}
    drawn_by = {name: value for name, value in about.items() if value is not None}
    seed = derive_seed(template.seed, template.language, template.metric, drawn_by)
    return statistic_rows(template, statistic, sums, weight, kind, n=n, seed=seed)
