"""Scores of fidelity from sums by slice and cluster, each with the interval of the shared estimators."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.fingerprint import derive_seed
from sonde.lenses.engine.lens import ScoringContext
from sonde.lenses.engine.observations import AccumulationJob
from sonde.lenses.fidelity.observe import DIMENSIONS, PLACE, bin_start
from sonde.models.engine.sizes import measure_size
from sonde.results import Mean, Score, cells, means, statistic_rows
from sonde.results.fidelity import BASE_PREFIX, SIZES
from sonde.results.group_means import Accumulator, to_fixed_point
from sonde.results.text_format import BITS_PER_NAT
from sonde.stats.estimate import Statistic

_KEYS = ("language", "dimension", "slice", "cluster")


_REAL = ("kl", "kl_reverse", "nats", "base_nats", "distance", "squares")


_COUNTS = ("n", "text_bytes", "same", "won", "lost")


_TAIL = 0.99
"""Share of subwords whose divergence lies below the number of the metric ``kl_p99``."""


_TAIL_DIMENSIONS = ("text", "construct", "position")


_PER_SUBWORD = (
    Mean("kl", pl.col("kl"), "nonnegative", per=pl.col("n")),
    Mean("kl_reverse", pl.col("kl_reverse"), "nonnegative", per=pl.col("n")),
    Mean("same_first", pl.col("same"), "proportion", per=pl.col("n")),
    Mean("flips", pl.col("won") + pl.col("lost"), "proportion", per=pl.col("n")),
    Mean("won", pl.col("won"), "proportion", per=pl.col("n")),
    Mean("lost", pl.col("lost"), "proportion", per=pl.col("n")),
    Mean(
        "top1_change",
        pl.col("won"),
        "proportion",
        per=pl.col("n"),
        baseline=pl.col("lost"),
        squares=pl.col("won") + pl.col("lost"),
    ),
    Mean("bits", pl.col("nats"), "nonnegative", per=pl.col("n"), factor=BITS_PER_NAT),
    Mean("base_bits", pl.col("base_nats"), "nonnegative", per=pl.col("n"), factor=BITS_PER_NAT),
    Mean(
        "bits_change",
        pl.col("nats"),
        "nonnegative",
        per=pl.col("n"),
        baseline=pl.col("base_nats"),
        factor=BITS_PER_NAT,
    ),
    Mean("bits_distance", pl.col("distance"), "nonnegative", per=pl.col("n"), factor=BITS_PER_NAT),
)


_OVERALL = (
    *_PER_SUBWORD,
    Mean(
        "bits_per_byte_change",
        pl.col("nats"),
        "nonnegative",
        per=pl.col("text_bytes"),
        baseline=pl.col("base_nats"),
        factor=BITS_PER_NAT,
    ),
)


_SQUARES = Mean("rms_probability", pl.col("squares"), "unit", per=pl.col("n"))


def score_fidelity(scoring: ScoringContext, base: str, minimum: int) -> Iterator[Score]:
    """Score a model beside its base, over all text and by slice.

    Args:
        scoring: The sums of all items.
        base: Name of the base, which every score has in ``compared_to``.
        minimum: Fewest subwords that a slice needs for a row of its own.
    """
    template = dataclasses.replace(scoring.template, compared_to=base, objective="causal")
    sums = scoring.batches.accumulate(_sum_batch, (), _accumulators())
    for dimension in DIMENSIONS:
        rows = sums["sums"].filter(pl.col("dimension") == dimension)
        metrics = _OVERALL if dimension == "text" else _PER_SUBWORD
        scores = means(
            rows,
            [*metrics, _SQUARES],
            template,
            by={dimension: pl.col("slice")},
            columns=("language",),
            minimum=minimum,
            size=pl.col("n"),
        )
        yield from map(_name_everything, map(_take_root, scores))
        if dimension in _TAIL_DIMENSIONS:
            bins = sums["bins"].filter(pl.col("dimension") == dimension)
            yield from map(_name_everything, _score_tails(bins, dimension, template, minimum))
    yield from _score_sizes(scoring, template)


def _accumulators() -> dict[str, Accumulator]:
    return {"sums": Accumulator(_KEYS, _REAL), "bins": Accumulator((*_KEYS, "bins"))}


def _sum_batch(job: AccumulationJob[tuple[()]]) -> dict[str, pl.DataFrame]:
    """Sum one batch of observations; runs in any process."""
    rows = job.observations.filter(pl.col("dimension") != PLACE)
    sums = rows.group_by(_KEYS).agg(
        *(to_fixed_point(pl.col(name)).sum() for name in _REAL), pl.col(_COUNTS).cast(pl.Int64).sum()
    )
    bins = (
        rows.filter(pl.col("dimension").is_in(_TAIL_DIMENSIONS))
        .select(*_KEYS, "bins")
        .explode("bins")
        .group_by(*_KEYS, "bins")
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )
    return {"sums": sums.collect(engine="streaming"), "bins": bins.collect(engine="streaming")}


def _name_everything(score: Score) -> Score:
    """Drop the dimension of a score over all text."""
    *outer, last = score.dimensions
    return dataclasses.replace(score, dimensions=tuple(outer)) if last == ("text", "all") else score


def _take_root(score: Score) -> Score:
    """Return the root of a mean square, of which no paired test is known; other scores as they are."""
    if score.metric != _SQUARES.metric:
        return score
    low, high = (end if end is None else math.sqrt(max(end, 0.0)) for end in (score.ci_low, score.ci_high))
    return dataclasses.replace(
        score, value=math.sqrt(score.value), ci_low=low, ci_high=high, contributions=None
    )


def _score_tails(bins: pl.DataFrame, dimension: str, template: Score, minimum: int) -> Iterator[Score]:
    """Yield the divergence that one subword of a hundred exceeds, by slice."""
    groups = bins.partition_by("language", "slice", as_dict=True)
    for (language, slice_name), rows in sorted(groups.items(), key=str):
        if rows["n"].sum() < minimum:
            continue
        sums = cells(rows, [pl.col("n")], ["bins"])
        score = dataclasses.replace(
            template.within((dimension, str(slice_name))), language=str(language), metric="kl_p99"
        )
        seed = derive_seed(score.seed, score.language, score.metric, {dimension: str(slice_name)})
        statistic = _quantile(rows["bins"].unique().sort().to_numpy())
        yield from statistic_rows(
            score, statistic, sums, np.asarray(sums.sum(axis=1)), "nonnegative", seed=seed
        )


def _quantile(bins: Int[np.ndarray, " bin"]) -> Statistic:
    """Build the quantile `_TAIL` of histograms over some bins, interpolated within its bin."""
    starts, stops = bin_start(bins), bin_start(bins + 1)

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        counts = np.cumsum(totals, axis=1)
        target = _TAIL * counts[:, -1:]
        index = np.minimum((counts < target).sum(axis=1), len(bins) - 1)
        rows = np.arange(len(totals))
        held = totals[rows, index]
        below = counts[rows, index] - held
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip((target[:, 0] - below) / held, 0.0, 1.0)
        values = starts[index] * (stops[index] / starts[index]) ** share
        return np.where(counts[:, -1] > 0, values, np.nan)

    return statistic


def _score_sizes(scoring: ScoringContext, template: Score) -> Iterator[Score]:
    """Yield the sizes of the weights of the model and of its base, where their files are here."""
    for spec, prefix in ((scoring.model, ""), (scoring.settings.base, BASE_PREFIX)):
        size = None if spec is None else measure_size(spec)
        if size is not None:
            for name, value in zip(SIZES, (float(size.bytes), size.bits_per_weight), strict=True):
                yield dataclasses.replace(
                    template, metric=f"{prefix}{name}", value=value, n=size.weights, n_clusters=0
                )
