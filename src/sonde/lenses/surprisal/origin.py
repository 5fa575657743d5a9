"""Calls into the repository compared with calls out of it, under several weightings of the tags.

The comparison is Table 1 of PERPLEXED.

Internal and external calls are not made of the same tags, so one mean over all their subwords mixes two
questions. ``count`` is that mean. The others are about tags that both sides hold often enough:
``count_common`` is the mean over their subwords, ``unweighted`` gives each of them the same weight, as the
paper does, ``standardised_external`` and ``standardised_internal`` give both sides one side's mix of them.

`pad_rows` adds pads as PERPLEXED counts them: scored like subwords, under the pad's own string.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.capture.requests import ItemCapture, Prepared
from sonde.lenses.engine.lens import QuirkHook
from sonde.lenses.surprisal.observe import LENS, alternatives
from sonde.lenses.surprisal.score import split_by
from sonde.results import Mean, Score, cells, mean_differences, means, statistic_rows
from sonde.results.schema import FILE_COLUMNS, OBSERVATIONS_SCHEMA, Dimensions
from sonde.stats.estimate import Statistic, kish
from sonde.stats.intervals import Kind

COUNT = "count"


WEIGHTINGS = (COUNT, "count_common", "unweighted", "standardised_external", "standardised_internal")


_SIDES = ("internal", "external")


_DIFFERENCE = "internal-external"


_ORIGIN = {"origin": pl.col("origin")}


_ORIGINS = ("internal", "external", "local", "builtin")


@dataclass(frozen=True, slots=True)
class OriginSummary:
    """Options of the comparison of calls by origin.

    Attributes:
        minimum: Fewest subwords that a tag needs on both sides to enter a comparison.
        weightings: Those that are asked for.
    """

    minimum: int
    weightings: tuple[str, ...] = WEIGHTINGS


def scores_by_origin(
    calls: pl.DataFrame,
    template: Score,
    summary: OriginSummary,
    kind: Kind = "nonnegative",
    metric: str = "nats",
) -> Iterator[Score]:
    """Score calls by origin, over all calls, then over names, arguments, bare and method calls.

    Args:
        calls: `sonde.lenses.surprisal.score.Sums.calls`.
        template: What the scores share.
        summary: How both sides are summed up.
        kind: What the means are: ``real`` for changes of surprisal.
        metric: What they are called.
    """
    of_tags = tuple(weighting for weighting in summary.weightings if weighting != COUNT)
    template = dataclasses.replace(template, task="call_origin", metric=metric)
    nats = Mean(metric, pl.col("nats"), kind, per=pl.col("n"))
    calls = calls.with_columns(pl.col("origin").cast(pl.Enum(_ORIGINS), strict=False))
    for language_template, language_calls in split_by(calls, "language", template):
        for part, part_calls in _selections(language_calls):
            part_groups = {name: pl.lit(value) for name, value in part}
            yield from means(part_calls, [nats], language_template, by=_ORIGIN | part_groups)
            if COUNT in summary.weightings:
                yield from _sides(
                    part_calls, nats, dataclasses.replace(language_template, weighting=COUNT), part_groups
                )
            common_calls = _select_common_tags(part_calls, summary.minimum)
            if common_calls.is_empty():
                continue
            yield from _summaries(common_calls, language_template, part, of_tags, kind)
            if not part:
                yield from _sides(common_calls, nats, language_template, {"tag": pl.col("tag")})


def _selections(calls: pl.DataFrame) -> Iterator[tuple[Dimensions, pl.DataFrame]]:
    """Yield all calls, then parts of them with the dimension that selects them."""
    yield (), calls
    for column, dimension in (("part", "origin_part"), ("form", "call_form")):
        for value in calls[column].unique().sort().to_list():
            if value:
                yield ((dimension, value),), calls.filter(pl.col(column) == value)


def _sides(calls: pl.DataFrame, nats: Mean, template: Score, groups: dict[str, pl.Expr]) -> Iterator[Score]:
    """Yield both origins in every group, with all of their subwords, and their difference."""
    compared_calls = calls.filter(pl.col("origin").is_in(_SIDES))
    yield from means(compared_calls, [nats], template, by=_ORIGIN | groups)
    yield from mean_differences(compared_calls, [nats], template, ("origin", *_SIDES), by=groups)


def _select_common_tags(calls: pl.DataFrame, minimum: int) -> pl.DataFrame:
    """Select the calls of both origins whose tags both have often enough."""
    sides = calls.filter(pl.col("origin").is_in(_SIDES) & (pl.col("tag") != ""))
    counts = sides.group_by("tag", "origin").agg(pl.col("n").sum()).filter(pl.col("n") >= minimum)
    common = counts.group_by("tag").len().filter(pl.col("len") == len(_SIDES))
    return sides.join(common, on="tag", how="semi")


def _summaries(
    calls: pl.DataFrame, template: Score, part: Dimensions, weightings: Sequence[str], kind: Kind
) -> Iterator[Score]:
    table = cells(calls, [pl.col("nats"), pl.col("n")], ["origin", "tag"]).toarray()
    counts = table.reshape(len(table), 2, len(_SIDES), -1)[:, 1].sum(axis=2)
    # The side whose clusters are worth less decides for the difference.
    scarcer = int(np.argmin([kish(counts[:, side]) for side in range(len(_SIDES))]))
    totals = counts.sum(axis=0)
    for weighting in weightings:
        for name, side in (("internal", 0), ("external", 1), (_DIFFERENCE, None)):
            weight = counts[:, scarcer if side is None else side]
            of_side = "real" if side is None else kind
            weighted_template = dataclasses.replace(
                template.within(("origin", name), *part), weighting=weighting
            )
            n = totals.sum() if side is None else totals[side]
            yield from statistic_rows(
                weighted_template, weighted_mean(weighting, side), table, weight, of_side, n=n
            )


def weighted_mean(weighting: str, side: int | None) -> Statistic:
    """Build the weighted mean of tag means of a side (0 internal, 1 external), or with None the difference.

    A tag that a row of totals lacks on either side takes no part in it.
    """

    def statistic(totals: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
        sums, counts = totals.reshape(len(totals), 2, len(_SIDES), -1).swapaxes(0, 1)
        in_both = (counts > 0).all(axis=1, keepdims=True)
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=in_both & (counts > 0))
        mix = {
            "count_common": counts,
            "unweighted": np.ones_like(counts),
            "standardised_external": np.broadcast_to(counts[:, 1:], counts.shape),
            "standardised_internal": np.broadcast_to(counts[:, :1], counts.shape),
        }[weighting] * in_both
        with np.errstate(invalid="ignore"):
            sides = (mix * means).sum(axis=2) / mix.sum(axis=2)
        return sides[:, 0] - sides[:, 1] if side is None else sides[:, side]

    return statistic


def is_summary(score: Score) -> bool:
    """Return whether a score sums up others: a weighted mean of tags, or a difference of origins."""
    return score.weighting is not None or ("origin", _DIFFERENCE) in score.dimensions


def pad_rows(prepared_item: Prepared, capture: ItemCapture, surfaces: Sequence[str]) -> pl.DataFrame:
    """Return the rows of the pads after one item, in `OBSERVATIONS_SCHEMA`; they cover no character.

    Like their original, they have no tag, and count in every mean over all subwords.

    Args:
        prepared_item: The item.
        capture: Its variant with `sonde.capture.requests.Plain.padded`.
        surfaces: Readable surface of each vocabulary id.
    """
    scores, item, subword_count = capture.scores, prepared_item.item, len(prepared_item.alignment.subwords)
    assert scores is not None
    assert capture.pad is not None
    size = len(scores.nats)
    columns = {
        "item_id": [item.item_id] * size,
        "file": [item.path] * size,
        "cluster": [item.cluster] * size,
        "language": [item.language] * size,
        "position": np.arange(subword_count, subword_count + size),
        "start": np.full(size, len(item.text)),
        "end": np.full(size, len(item.text)),
        "subword": [surfaces[capture.pad]] * size,
        "subword_id": np.full(size, capture.pad),
        "nats": scores.nats,
        "rank": scores.rank,
        "entropy": scores.entropy,
        "context": np.full(size, subword_count),
        **{name: np.zeros(size) for name in ("bytes", "text_characters", "text_bytes", "covered")},
        **{name: [None] * size for name in (*FILE_COLUMNS, "units", "completion")},
        "kind": ["pad"] * size,
        "merged": np.zeros(size),
        "token": np.full(size, -1),
    }
    empty = [""] * size
    series = [
        pl.Series(name, columns.get(name, empty), dtype=dtype)
        for name, dtype in OBSERVATIONS_SCHEMA.items()
        if name not in ("top", "top_nats")
    ]
    return pl.DataFrame([*series, *alternatives(scores.top_ids, scores.top_nats, surfaces)])


SUMMARY: QuirkHook[OriginSummary, []] = QuirkHook(LENS)
"""How calls into the repository and out of it are summed up."""
