"""Scores of surprisal from sums by slice and cluster, with curves, and both sides of a cut-off day.

One pass over the observations suffices, and the size of the corpus does not set its memory. Observations come
in batches of whole items; each batch leaves, for each dimension, one row per language, slice and cluster. The
scores are bits, ranks and entropies of the subwords of every slice, with clustered intervals; calibration,
and how loss goes with frequency, are figures whose intervals are drawn.

A decoder has no context before the first subword of a text, so the cost of that subword says how texts begin
and not what is hard. It counts in the numbers over all of the text, has a part of its own (``first``), and is
in no slice. If it begins a token, no slice counts the cost of the whole token. The same subwords are kept
apart if the text is read after its file context, so that a change is one of the same subwords.

Functions from before a day are compared with those since, over the same mix of constructs (`period_scores`).
A model that has read the older code predicts it better than newer code of the same kind. Both times are
compared within each cluster, construct and reach of context, so that neither other repositories nor other
constructs, nor longer functions, make the difference. The same of random weights says what the texts alone
do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import sparse

from sonde.alignment import is_token_label
from sonde.base.fingerprint import derive_seed
from sonde.lenses.engine.lens import QuirkHook
from sonde.lenses.engine.observations import AccumulationJob, BatchSums
from sonde.lenses.surprisal.observe import LENS
from sonde.results import Mean, Score, cells, means, statistic_rows
from sonde.results.group_means import (
    MATCHED_SHARE,
    Accumulator,
    iterate_item_batches,
    mark_matched_cells,
    match_cells,
    to_fixed_point,
)
from sonde.results.memorisation import AFTER_CUTOFF, BEFORE_CUTOFF, CUTOFF_CHANGE, PERIOD
from sonde.results.schema import IS_FIRST
from sonde.stats.estimate import Statistic
from sonde.stats.intervals import DIFFERENCE_OF, Kind
from sonde.stats.metrics import equal_mass_bins, expected_calibration_error, spearman

LOGIT_STEPS = 20
"""Fine bins of confidence a unit of log-odds; equal-mass bins are made of them."""


KEYS = ("language", "slice", "cluster")


CALL_KEYS = ("language", "origin", "part", "form", "tag", "cluster")


BIN_KEYS = ("language", "bin", "step", "cluster")


_COLUMNS = (
    "item_id", "cluster", "language", "start", "end", "subword", "subword_id", "nats", "rank", "entropy",
    "context", "text_characters", "text_bytes", "covered", "kind", "role", "tag", "merged", "token", "word",
    "construct", "ancestors", "origin", "origin_part", "call_form", "library", "user_tag",
    "best_nats",
)  # fmt: skip


_ITEM_STRIDE = 1 << 40


_PLAIN = ("subword", "tag", "construct", "kind", "role", "library")
"""Dimensions of which a row has one slice."""


PARTS = {"ancestor": ("ancestors", "/"), "user_tag": ("user_tag", "|")}
"""Dimensions of which a row has several slices: their column, and what stands between them."""


_SLICES = ("all", *_PLAIN, *PARTS)


BINS = 10
"""Bins of confidence."""


_REAL = ("nats", "token_nats", "entropy", "reciprocal", "reciprocal_apart", "confidence")


BY_ID = pl.col("subword") + "#" + pl.col("subword_id").cast(pl.String)
"""What a slice of the dimension ``subword`` is called: ids that look alike are apart."""


NONE_FIRST = pl.lit(value=False)
"""For models that see both sides of a subword: the first of a text is one as any other."""


_CODE = pl.col("token") >= 0


_BRIEF = (
    pl.len().cast(pl.Int64).alias("n"),
    pl.col("nats", "told").sum(),
    pl.col("^top1(_apart)?$").sum(),
)


_SUMS = (
    *_BRIEF,
    pl.col("entropy").sum(),
    pl.col("^reciprocal(_apart)?$").sum(),
    pl.col("^top5(_apart)?$").sum(),
    pl.col("text_bytes").sum(),
    pl.col("tokens", "token_nats").sum(),
)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of all observations.

    Attributes:
        slices: For each dimension (``all``: all of the text, and its parts), by ``language, slice, cluster``:
            ``n`` subwords, none of them the first of a text but in ``all``, ``told`` (those of which it is
            known whether they are among the best), ``nats``, ``entropy``, ``reciprocal`` (of the rank),
            ``top1``, ``top5``, ``text_bytes``, ``tokens`` (code tokens that begin there) and ``token_nats``
            (what these cost); for ``subword`` only ``n``, ``told``, ``nats`` and ``top1``. Behind a file also
            ``top1_apart``, ``top5_apart`` and ``reciprocal_apart``: squares of how far they are from those
            of the text alone, so of 0/1 the subwords that differ.
        names: By name: whole occurrences ``tokens`` and their ``nats``.
        characters: By ``language, cluster``: the ``characters`` of the text that scored subwords answer for,
            and how many of them are ``covered`` by a piece that the vocabulary holds.
        calls: By ``language, origin, part, form, tag, cluster``: ``n`` and ``nats``.
        calibration: By ``language, bin, step, cluster``: ``n``, ``confidence``, ``top1``.
        vocabulary: ``slice, subword_id``: the ids behind each slice of the dimension ``subword``.
    """

    slices: dict[str, pl.DataFrame]
    names: pl.DataFrame
    characters: pl.DataFrame
    calls: pl.DataFrame
    calibration: pl.DataFrame
    vocabulary: pl.DataFrame


def collect_sums(observations: BatchSums, *, subword: pl.Expr = BY_ID, first: pl.Expr = IS_FIRST) -> Sums:
    """Sum the observations in one pass.

    Args:
        observations: The item table; rows of an item stand together, by position.
        subword: What a slice of the dimension ``subword`` is called.
        first: Which subwords are in no slice.
    """
    sums = observations.accumulate(_sum_batch, (subword, first), _accumulators())
    slices = {name: sums.pop(name) for name in _SLICES}
    return Sums(slices, **sums)


def _accumulators() -> dict[str, Accumulator]:
    """Return empty sums: of each dimension, then of the other tables of `Sums`."""
    return {
        **{name: Accumulator(KEYS, _REAL) for name in _SLICES},
        "names": Accumulator(KEYS, _REAL),
        "characters": Accumulator(("language", "cluster")),
        "calls": Accumulator(CALL_KEYS, _REAL),
        "calibration": Accumulator(BIN_KEYS, _REAL),
        "vocabulary": Accumulator(("slice", "subword_id")),
    }


def _sum_batch(job: AccumulationJob[tuple[pl.Expr, pl.Expr]]) -> dict[str, pl.DataFrame]:
    """Sum one batch of observations; runs in any process."""
    (subword, first), accumulators = job.asked, _accumulators()
    observations = job.observations.with_columns(best_nats=pl.col("top_nats").list.first())
    for batch in iterate_item_batches(observations.select(*_COLUMNS, pl.col("^.*_apart$"))):
        rows = _derive_columns(batch, first)
        # Without the tokens that the first subword of a text begins.
        later_rows = rows.filter(~pl.col("first")).with_columns(
            pl.when("begun_first").then(0).otherwise(name).alias(name) for name in ("tokens", "token_nats")
        )
        parts = {
            "all": rows,
            "code": rows.filter(_CODE),
            "layout": rows.filter(~_CODE),
            # A token that it begins goes on behind it.
            "first": rows.filter("first").with_columns(tokens=pl.lit(0, pl.Int64)),
        }
        for name, part in parts.items():
            accumulators["all"].add(sum_slices(part, pl.lit(name), _SUMS))
        # There are many subwords, and little is asked of each.
        accumulators["subword"].add(sum_slices(later_rows, subword, _BRIEF))
        for name in _PLAIN[1:]:
            accumulators[name].add(sum_slices(later_rows, pl.col(name), _SUMS))
        for name, (column, mark) in PARTS.items():
            accumulators[name].add(sum_parts(later_rows, column, mark, _SUMS))
        accumulators["names"].add(_names(rows))
        accumulators["characters"].add(
            rows.group_by("language", "cluster").agg(
                pl.col("text_characters").sum().alias("characters"), pl.col("covered").sum()
            )
        )
        accumulators["calls"].add(sum_calls(later_rows))
        accumulators["calibration"].add(_calibration(rows))
        accumulators["vocabulary"].add(rows.select(subword.alias("slice"), "subword_id").unique())
    return {name: accumulator.merge_parts() for name, accumulator in accumulators.items()}


def _derive_columns(batch: pl.DataFrame, first: pl.Expr) -> pl.DataFrame:
    """Add the columns that sums are made of."""
    item = pl.col("item_id").rle_id().cast(pl.Int64)
    reach = pl.when(_CODE).then(item * _ITEM_STRIDE + pl.col("token") + pl.col("merged"))
    # How far earlier pieces of the same item reached; where there are none, the tokens begin here.
    token_end = reach.cum_max().forward_fill().shift(1).fill_null(-1) - item * _ITEM_STRIDE
    tokens = pl.col("token") + pl.col("merged") - pl.max_horizontal(token_end, pl.col("token").cast(pl.Int64))
    rows = batch.with_columns(
        to_fixed_point(pl.col("nats")),
        to_fixed_point(pl.col("entropy")),
        pl.col("text_characters", "text_bytes", "covered").cast(pl.Int64),
        item=item,
        first=first,
        reciprocal=to_fixed_point(1.0 / pl.col("rank")),
        # A rank that a server does not tell is beyond the alternatives that it lists, if it lists any.
        told=(pl.col("rank").is_not_null() | pl.col("best_nats").is_not_null()).cast(pl.Int64),
        top1=(pl.col("rank") == 1).fill_null(value=False).cast(pl.Int64),
        top5=(pl.col("rank") <= 5).fill_null(value=False).cast(pl.Int64),
        tokens=pl.when(_CODE).then(tokens.clip(0)).otherwise(0),
    )
    token_end = pl.when(_CODE & pl.col("first")).then(pl.col("token") + pl.col("merged")).max()
    is_first_token = (_CODE & (pl.col("token") < token_end.over("item"))).fill_null(value=False)
    return rows.with_columns(begun_first=is_first_token, token_nats="nats")


def sum_slices(rows: pl.DataFrame, key: pl.Expr, sums: Sequence[pl.Expr]) -> pl.DataFrame:
    """Sum rows by their slice; the empty one is none."""
    return rows.with_columns(slice=key).filter(pl.col("slice") != "").group_by(KEYS).agg(*sums)


def sum_parts(rows: pl.DataFrame, column: str, mark: str, sums: Sequence[pl.Expr]) -> pl.DataFrame:
    """Sum rows that belong to several slices: equal combinations first, then each of their parts."""
    combination_sums = rows.group_by("language", column, "cluster").agg(*sums)
    parts = combination_sums.with_columns(slice=pl.col(column).str.split(mark).list.unique())
    return parts.explode("slice").filter(pl.col("slice") != "").drop(column).group_by(KEYS).sum()


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    """Sum identifiers by name, if all of their pieces lie in them alone."""
    occurrences = (
        rows.filter(_CODE)
        .group_by("item", "token")
        .agg(
            pl.col("language", "cluster", "word", "kind").first(),
            pl.col("tokens").first().alias("begins"),
            pl.col("merged").max().alias("widest"),
            pl.col("begun_first").any(),
            pl.col("nats").sum(),
        )
        .filter(
            (pl.col("kind") == "identifier")
            & (pl.col("begins") == 1)
            & (pl.col("widest") == 1)
            & ~pl.col("begun_first")
        )
    )
    return (
        occurrences.rename({"word": "slice"})
        .group_by(KEYS)
        .agg(pl.len().cast(pl.Int64).alias("tokens"), pl.col("nats").sum())
    )


def sum_calls(rows: pl.DataFrame) -> pl.DataFrame:
    """Sum the rows of calls by the columns that identify a group of calls."""
    return (
        rows.filter(pl.col("origin") != "")
        .rename({"origin_part": "part", "call_form": "form"})
        .group_by(CALL_KEYS)
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("nats").sum())
    )


def _calibration(rows: pl.DataFrame) -> pl.DataFrame:
    best = pl.col("best_nats").cast(pl.Float64)
    confidence = (-best).exp().clip(0.0, 1.0)
    odds = (-best - (-confidence).log1p()).clip(-12.0, 12.0)
    return (
        rows.filter(best.is_not_null())
        .with_columns(
            confidence=to_fixed_point(confidence),
            bin=(confidence * BINS).floor().clip(0, BINS - 1).cast(pl.Int64),
            step=(odds * LOGIT_STEPS).floor().cast(pl.Int64),
        )
        .group_by(BIN_KEYS)
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("confidence").sum(), pl.col("top1").sum())
    )


BITS = 1.0 / math.log(2.0)
"""Bits in a nat."""


def ratio_of_sums(
    metric: str, numerator: str, denominator: str, kind: Kind = "nonnegative", factor: float = 1.0
) -> Mean:
    """Build the ratio of the sums of two columns."""
    return Mean(metric, pl.col(numerator), kind, per=pl.col(denominator), factor=factor)


def build_bit_rate(metric: Literal["bits_per_byte", "bits_per_character"], denominator: str) -> Mean:
    """Build the bits per byte or character of a text, from the column with its size."""
    return ratio_of_sums(metric, "nats", denominator, factor=BITS)


_PER_SUBWORD = (
    ratio_of_sums("nats", "nats", "n"),
    ratio_of_sums("bits", "nats", "n", factor=BITS),
    ratio_of_sums("top1", "top1", "told", "proportion"),
)


_FULL = (
    *_PER_SUBWORD,
    ratio_of_sums("top5", "top5", "told", "proportion"),
    ratio_of_sums("mrr", "reciprocal", "n", "unit"),
    ratio_of_sums("entropy", "entropy", "n"),
    ratio_of_sums("nats_per_token", "token_nats", "tokens"),
)


_OVERALL = (*_FULL, build_bit_rate("bits_per_byte", "text_bytes"))


_PER_CHARACTER = (
    build_bit_rate("bits_per_character", "characters"),
    ratio_of_sums("coverage", "covered", "characters", "proportion"),
)


_NAMES = (ratio_of_sums("nats_per_token", "nats", "tokens"),)


_UNCHANGED = "coverage"


def overall_scores(sums: Sums, template: Score, *, change: bool = False) -> Iterator[Score]:
    """Score all subwords, code, layout and first subwords; of sums of changes, score their changes."""
    text_sums = sums.slices["all"]
    groups = {"text": pl.col("slice")}
    for score in means(
        text_sums, _select_means(_OVERALL, change), template, by=groups, columns=("language",)
    ):
        is_all = score.dimensions[-1] == ("text", "all")
        yield dataclasses.replace(score, dimensions=template.dimensions) if is_all else score
    all_sums = text_sums.filter(pl.col("slice") == "all").join(sums.characters, on=["language", "cluster"])
    yield from means(all_sums, _select_means(_PER_CHARACTER, change), template, columns=("language",))


def is_of_subwords(score: Score) -> bool:
    """Return whether a score is of subwords that are no code tokens, or of a part of the text in subwords."""
    return any(name == "text" or not is_token_label(value) for name, value in score.dimensions)


def slice_scores(sums: Sums, template: Score, minimum: int, *, change: bool = False) -> Iterator[Score]:
    """Score every slice of every dimension that has at least ``minimum`` subwords."""
    tables = [
        *((name, frame, "n") for name, frame in sums.slices.items() if name != "all"),
        ("name", sums.names, "tokens"),
    ]
    for dimension, frame, count_column in tables:
        metrics = {"subword": _PER_SUBWORD, "name": _NAMES}.get(dimension, _FULL)
        yield from score_dimension(
            frame, dimension, _select_means(metrics, change), template, minimum, count_column
        )


def score_dimension(
    frame: pl.DataFrame,
    dimension: str,
    metrics: Sequence[Mean],
    template: Score,
    minimum: int,
    count_column: str = "n",
) -> Iterator[Score]:
    """Score every slice of a dimension that has at least ``minimum`` in a count column."""
    return means(
        frame,
        metrics,
        template,
        by={dimension: pl.col("slice")},
        columns=("language",),
        minimum=minimum,
        size=pl.col(count_column),
    )


def _select_means(metrics: Sequence[Mean], change: bool) -> list[Mean]:
    """Return the metrics, or with ``change`` those of changes, whose bounds differ.

    Changes of what lies between 0 and 1 have their squares in a column that ends in ``_apart``.
    """
    if not change:
        return list(metrics)
    return [
        dataclasses.replace(
            metric, kind=DIFFERENCE_OF[metric.kind], squares=pl.col(f"{metric.of.meta.output_name()}_apart")
        )
        for metric in metrics
        if metric.metric != _UNCHANGED
    ]


SUMS: QuirkHook[Sums, []] = QuirkHook(LENS)
"""The sums that scores are made of."""


_CURVES = (
    ratio_of_sums("accuracy", "top1", "n", "proportion"),
    ratio_of_sums("confidence", "confidence", "n", "unit"),
)
"""What is averaged in each bin of confidence."""


def split_by(frame: pl.DataFrame, column: str, template: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    """Yield the rows of each value of a column, in order, with a score that has the value."""
    for (value,), rows in sorted(frame.partition_by(column, as_dict=True).items()):
        yield dataclasses.replace(template, **{column: str(value)}), rows


def score_calibration(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score accuracy and confidence by bin, and the expected calibration error of both kinds of bin.

    Args:
        frame: `sonde.lenses.surprisal.score.Sums.calibration`.
        template: What the scores share.
    """
    ends = {index: f"{index / BINS:.4g}-{(index + 1) / BINS:.4g}" for index in range(BINS)}
    for language_template, language_sums in split_by(frame, "language", template):
        yield from means(
            language_sums, _CURVES, language_template, by={"confidence": pl.col("bin").replace_strict(ends)}
        )
        steps = language_sums.group_by("step").agg(pl.col("n").sum()).sort("step")
        mass = pl.Series("mass", equal_mass_bins(steps["n"].cast(pl.Float64).to_numpy(), BINS))
        bin_sums = language_sums.join(steps.select("step").with_columns(mass), on="step")
        for name, column in (("equal_width", "bin"), ("equal_mass", "mass")):
            yield from _error(bin_sums, column, dataclasses.replace(language_template, binning=name, k=BINS))


def score_frequency(
    frame: pl.DataFrame, name: str, template: Score, minimum: int, training_counts: pl.DataFrame | None = None
) -> Iterator[Score]:
    """Score Spearman's correlation of a slice's mean loss and its frequency, over a dimension's slices.

    A mean over one or two occurrences is mostly noise, and most slices are as rare as that: beside the
    correlation over all slices stands that over those with enough occurrences, which ``k`` names.

    Args:
        frame: Sums of the dimension, by ``language, slice, cluster``.
        name: The dimension, for the column ``unit``.
        template: What the scores share.
        minimum: Occurrences that are enough.
        training_counts: ``slice, count`` in the training data; a slice that it lacks was never seen. None
            where nothing is known.
    """
    for language_template, language_sums in split_by(frame, "language", template):
        for threshold in (None, minimum):
            is_frequent = pl.col("n").sum().over("slice") >= (threshold or 1)
            frequency_template = dataclasses.replace(language_template, unit=name, k=threshold)
            yield from _frequency(language_sums.filter(is_frequent), frequency_template, training_counts)


def _frequency(
    slice_sums: pl.DataFrame, template: Score, training_counts: pl.DataFrame | None
) -> Iterator[Score]:
    if slice_sums.is_empty():
        return
    slices = slice_sums.select("slice").unique().sort("slice")
    sums = cells(slice_sums, [pl.col("nats"), pl.col("n")], ["slice"])
    weight = np.asarray(sums[:, slices.height :].sum(axis=1))
    metrics: dict[str, Float[np.ndarray, " slice"] | None] = {"spearman_frequency_corpus": None}
    if training_counts is not None:
        counts = slices.join(training_counts, on="slice", how="left", maintain_order="left")["count"]
        metrics |= {"spearman_frequency_training": counts.fill_null(0).cast(pl.Float64).to_numpy()}
    for metric, counts_by_slice in metrics.items():
        statistic = _loss_by_count(counts_by_slice)
        metric_template = dataclasses.replace(template, metric=metric)
        yield from _bootstrap_score(statistic, sums, weight, metric_template, "correlation", slices.height)


def _error(frame: pl.DataFrame, column: str, template: Score) -> list[Score]:
    sums = cells(frame, [pl.col("confidence"), pl.col("top1"), pl.col("n")], [column]).toarray()
    weight = np.split(sums, 3, axis=1)[2].sum(axis=1)
    error_template = dataclasses.replace(template, metric="ece")
    return _bootstrap_score(
        lambda totals: expected_calibration_error(*np.split(totals, 3, axis=1)),
        sums,
        weight,
        error_template,
        "unit",
    )


def _loss_by_count(known_counts: Float[np.ndarray, " slice"] | None) -> Statistic:
    """Build the correlation with known counts, or else with those of the draw itself."""

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        nats, counts = np.split(totals, 2, axis=1)
        means = np.divide(nats, counts, out=np.full_like(nats, np.nan), where=counts > 0)
        return spearman(means, counts if known_counts is None else np.broadcast_to(known_counts, means.shape))

    return statistic


def _bootstrap_score(
    statistic: Statistic,
    sums: sparse.csr_array | Float[np.ndarray, "cluster total"],
    weight: Float[np.ndarray, " cluster"],
    template: Score,
    kind: Kind,
    n: int | None = None,
) -> list[Score]:
    """Return one score with a bootstrap interval."""
    # The keys are those of the first schema: a number that did not change keeps its interval.
    key_fields = {"name": template.unit or template.binning, "k": template.k}
    seed_fields = {name: value for name, value in key_fields.items() if value is not None}
    seed = derive_seed(template.seed, template.language, template.metric, seed_fields)
    return statistic_rows(template, statistic, sums, weight, kind, n=n, seed=seed)


RANDOM_WEIGHTS = "random_weights"


_REACHES = (16, 64, 256)
"""Subwords of context at which another stratum begins: the first subwords of a text cost the most."""


_WEIGHTS = {"bits_per_byte": "bytes", "bits": "subwords"}


_CELL = ("cluster", "construct", "reach")


_SIDES = (PERIOD, BEFORE_CUTOFF, AFTER_CUTOFF)


_QUANTUM = 2.0**-30


def items_by_period(items: pl.DataFrame) -> pl.DataFrame:
    """Return ``item_id, cluster, period`` of the items on one side of a day; none without a day."""
    if PERIOD not in items.columns:
        return pl.DataFrame(schema=dict.fromkeys(("item_id", "cluster", PERIOD), pl.String))
    return items.filter(pl.col(PERIOD).is_in(_SIDES[1:])).select("item_id", "cluster", PERIOD)


def period_scores(
    observations: pl.LazyFrame,
    controls: list[pl.LazyFrame],
    periods: pl.DataFrame,
    template: Score,
    minimum: int,
) -> Iterator[Score]:
    """Score both periods, their difference, the matched shares, and the same of random weights.

    Args:
        observations: The model's item table.
        controls: Those of random weights over the same items.
        periods: See `items_by_period`; where it is empty there are no scores.
        template: What the scores share.
        minimum: Fewest subwords that a construct needs for a row of its own that says how many were matched.
    """
    if periods.is_empty():
        return
    model_sums = _sums(observations, periods)
    yield from _matched_shares(model_sums, template, minimum)
    for metric, weight in _WEIGHTS.items():
        cells = match_cells(model_sums, _SIDES, _CELL, "nats", weight)
        yield from _of_times(cells, metric, template)
        for control in controls:
            control_cells = match_cells(_sums(control, periods), _SIDES, _CELL, "nats", weight)
            yield from _of_times(control_cells, metric, dataclasses.replace(template, control=RANDOM_WEIGHTS))
            yield from _score_excess(cells, control_cells, metric, template)


def _sums(observations: pl.LazyFrame, periods: pl.DataFrame) -> pl.DataFrame:
    """Sum ``nats``, ``bytes`` and ``subwords`` by cluster, construct, reach and period."""
    layout = pl.col("kind") == "layout"
    rows = observations.filter(pl.col("kind") != "pad").select(
        "item_id",
        construct=pl.when(layout).then(pl.lit("layout")).otherwise(pl.col("construct")),
        reach=sum((pl.col("context") >= threshold).cast(pl.Int64) for threshold in _REACHES),
        nats=to_fixed_point(pl.col("nats")),
        bytes=pl.col("text_bytes").cast(pl.Int64),
    )
    sums = (
        rows.join(periods.lazy(), on="item_id")
        .group_by(*_CELL, PERIOD)
        .agg(pl.col("nats", "bytes").sum(), subwords=pl.len().cast(pl.Int64))
    )
    return sums.collect(engine="streaming").sort(*_CELL, PERIOD).with_columns(pl.col("nats") * _QUANTUM)


def _of_times(cells: pl.DataFrame, metric: str, template: Score) -> Iterator[Score]:
    """Yield the cost of a unit of text in either period, over the same mix, and the difference."""
    earlier_mean, later_mean = (
        Mean(metric, pl.col(side), "nonnegative", per=pl.col("w"), factor=BITS)
        for side in ("first", "second")
    )
    change = dataclasses.replace(later_mean, baseline=pl.col("first"))
    for period, mean in ((BEFORE_CUTOFF, earlier_mean), (AFTER_CUTOFF, later_mean), (CUTOFF_CHANGE, change)):
        yield from _clear_weights(means(cells, [mean], template.within((PERIOD, period))), cells)


def _score_excess(
    cells: pl.DataFrame, control: pl.DataFrame, metric: str, template: Score
) -> Iterator[Score]:
    """Yield the excess of the difference over that of random weights over the same cells."""
    joined_cells = cells.join(control, on=_CELL)
    mean = Mean(
        metric,
        pl.col("second") - pl.col("first"),
        "real",
        per=pl.col("w"),
        baseline=pl.col("second_right") - pl.col("first_right"),
        factor=BITS,
        fields={"compared_to": RANDOM_WEIGHTS},
    )
    yield from _clear_weights(
        means(joined_cells, [mean], template.within((PERIOD, CUTOFF_CHANGE))), joined_cells
    )


def _clear_weights(scores: Iterator[Score], cells: pl.DataFrame) -> Iterator[Score]:
    """Yield scores whose count is that of both periods: their weights are no counts."""
    for score in scores:
        yield dataclasses.replace(score, n=int(cells["held"].sum()))


def _matched_shares(sums: pl.DataFrame, template: Score, minimum: int) -> Iterator[Score]:
    """Yield the share of each period's bytes that is matched, in all and by construct."""
    rows = mark_matched_cells(sums, PERIOD, _CELL, "bytes")
    share = Mean(MATCHED_SHARE, pl.col(MATCHED_SHARE), "proportion", per=pl.col("bytes"))
    for columns in ((PERIOD,), (PERIOD, "construct")):
        yield from means(rows, [share], template, by=columns, minimum=minimum, size=pl.col("subwords"))
