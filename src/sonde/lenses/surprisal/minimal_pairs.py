"""Minimal pairs: is a function as it was written likelier than the same with a fault?

BLiMP's question (Warstadt et al. 2020) is asked of models of code, with the fault and bug tasks. A decoder
scores each text by the sum of its log-probabilities from the changed place on: what precedes the place is the
same in both texts and cancels, what follows counts. A masked model gives the pseudo-log-likelihood of the
subwords around the place, word by word from left to right (Kauf and Ivanova 2023). A model that fills in
scores only the place, which is left out whole and written from both of its sides, as the rest of both texts
is the same.

The scores (`score_pairs`) are how often a model finds the original likelier, compared with controls that need
no model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import CaptureError, explain_nan
from sonde.capture.requests import Masked, Pass, Plain, Prepared, TokenScores
from sonde.corpora import Item
from sonde.lenses.engine.layout import Layout, PieceSpans, constructs
from sonde.lenses.engine.lens import CapturedItem, ScoringContext
from sonde.lenses.engine.observations import word_masks
from sonde.lenses.surprisal.observe import overlaps_spans
from sonde.lenses.surprisal.options import CAUSAL, INFILL, PLL, SurprisalOptions
from sonde.lenses.surprisal.score import split_by
from sonde.results import Mean, Score, means
from sonde.results.schema import Columns, to_schema

WINDOW = 32
"""Subwords on either side of the place whose pseudo-log-likelihood counts: 64 around it."""


SIDES_COLUMNS: Columns = {
    "item_id": (pl.String, "the text"),
    "task": (pl.String, "the task of the pair"),
    "source_id": (pl.String, "the corpus item that both texts come from: the pair's name"),
    "original": (pl.Boolean, "whether it is the text as it was written"),
    "file": (pl.String, "path of the item"),
    "cluster": (pl.String, "unit of resampling"),
    "language": (pl.String, "public name"),
    "start": (pl.Int32, "first character of the place where the two texts differ"),
    "end": (pl.Int32, "its end, exclusive"),
    "construct": (pl.String, "innermost construct at the place"),
    "nats": (
        pl.Float64,
        "surprisal of the text from the place on; for masked models, of the subwords of the place and 32 on "
        "either side; for models that fill in text, of the place",
    ),
    "subwords": (pl.Int32, "number of subwords in it"),
    "place_nats": (pl.Float64, "surprisal of the subwords of the place only"),
    "place_subwords": (pl.Int32, "number of subwords in it"),
    "before_nats": (pl.Float64, "surprisal of the text before the place; 0 if the model sees both sides"),
    "before_subwords": (pl.Int32, "number of subwords in it"),
}
"""Columns of the item table of minimal pairs, one row a text of a pair."""


SIDES_SCHEMA = to_schema(SIDES_COLUMNS)


Labels = Mapping[str, pl.DataFrame]


def select_masked_pairs(items: Sequence[Item], labels: Labels, options: SurprisalOptions) -> Sequence[Item]:
    """Select the texts that a masked model reads: of each task the first pairs that are short enough."""
    short = {item.item_id: len(item.text) <= options.masked_characters for item in items}
    order = {item.item_id: position for position, item in enumerate(items)}
    selected_ids: set[str] = set()
    for table in labels.values():
        sides: dict[str, list[str]] = {}
        for name, source in table.select("item_id", "source_id").iter_rows():
            sides.setdefault(source, []).append(name)
        short_pairs = [pair for pair in sides.values() if all(short.get(name) for name in pair)]
        short_pairs.sort(key=lambda pair: min(order[name] for name in pair))
        selected_ids.update(name for pair in short_pairs[: options.masked_items] for name in pair)
    return [item for item in items if item.item_id in selected_ids]


def pair_requests(
    prepared_items: Sequence[Prepared], labels: Labels, options: SurprisalOptions
) -> tuple[Pass, ...]:
    """Return a plain pass, a mask per subword around the places, or the places as gaps."""
    scores = TokenScores(top_k=1)
    if options.objective == CAUSAL:
        return (Pass(Plain(start=options.bos), (scores,)),)
    sides = _sides(labels)
    inputs = {
        prepared_item.item.item_id: _masked_inputs(prepared_item, sides, options.objective)
        for prepared_item in prepared_items
    }
    return (Pass(Masked(inputs), (scores,)),)


def observe_pairs(
    captured_items: Sequence[CapturedItem], labels: Labels, options: SurprisalOptions
) -> pl.DataFrame:
    """Return a row per text and pair in `SIDES_SCHEMA`; a text whose place no subword touches has none.

    Raises:
        CaptureError: A capture holds no scores, or infinite ones.
    """
    sides = _sides(labels)
    rows: list[tuple[Any, ...]] = []
    if not captured_items:
        return pl.DataFrame(schema=SIDES_SCHEMA)
    layout = Layout.from_items([captured_item.prepared for captured_item in captured_items])
    kinds = constructs(layout)
    for captured_item, first_row in zip(captured_items, layout.row.tolist(), strict=False):
        prepared_item, objective = captured_item.prepared, options.objective
        item = prepared_item.item
        inputs = () if objective == CAUSAL else _masked_inputs(prepared_item, sides, objective)
        readings = _read_nats(captured_item, inputs, objective)
        for side in sides.get(item.item_id, ()):
            place = _find_place(prepared_item, side)
            if not place:
                continue
            nats = readings[inputs.index(tuple(place)) if objective == INFILL else 0]
            scored_ranges = {
                CAUSAL: range(place.start, len(nats)),
                PLL: _surround_place(place, len(nats)),
                INFILL: place,
            }
            prefix_range = range(place.start if objective == CAUSAL else 0)
            rows.append(
                (
                    item.item_id,
                    *side[:3],
                    item.path,
                    item.cluster,
                    item.language,
                    *side[3:],
                    kinds[first_row + place.start],
                    *_sum_scores(nats, scored_ranges[objective], item),
                    *_sum_scores(nats, place, item),
                    *_sum_scores(nats, prefix_range, item),
                )
            )
    return pl.DataFrame(rows, schema=dict(SIDES_SCHEMA), orient="row")


_Side = tuple[str, str, bool, int, int]
"""Task, pair, whether it is the original, and the first and last character of the place, exclusive."""


def _sides(labels: Labels) -> Mapping[str, list[_Side]]:
    """Return the pairs that each text is in, by item id, in the order of the tasks."""
    sides_by_item: dict[str, list[_Side]] = {}
    for task, table in labels.items():
        rows = table.select("item_id", "source_id", "original", "start", "end").sort("source_id", "original")
        for name, *side in rows.iter_rows():
            sides_by_item.setdefault(name, []).append((task, side[0], side[1], side[2], side[3]))
    return sides_by_item


def _find_place(prepared_item: Prepared, side: _Side) -> range:
    """Return the positions of the subwords that share a character with the place, without outer spaces."""
    pieces = prepared_item.alignment.subwords
    spans = PieceSpans.trim(prepared_item.item.text, pieces.start, pieces.end)
    positions = np.flatnonzero(overlaps_spans(side[3], side[4], spans)).tolist()
    return range(positions[0], positions[-1] + 1) if positions else range(0)


def _surround_place(place: range, size: int) -> range:
    """Return the positions of a place and of the subwords on either side that count."""
    return range(max(0, place.start - WINDOW), min(size, place.stop + WINDOW))


def _masked_inputs(
    prepared_item: Prepared, sides: Mapping[str, list[_Side]], objective: str
) -> tuple[tuple[int, ...], ...]:
    """Return what each input of a text hides: a place, or a subword near one with the rest of its word."""
    places = [_find_place(prepared_item, side) for side in sides.get(prepared_item.item.item_id, ())]
    if objective == INFILL:
        return tuple(dict.fromkeys(tuple(place) for place in places if place))
    masks = word_masks(prepared_item.alignment)
    positions = {position for place in places if place for position in _surround_place(place, len(masks))}
    return tuple(masks[position] for position in sorted(positions))


def _read_nats(
    captured_item: CapturedItem, inputs: Sequence[tuple[int, ...]], objective: str
) -> list[np.ndarray[Any, Any]]:
    """Return the surprisal of the subwords of a text, NaN where it was not requested.

    Gaps are scored separately: the places of several tasks may touch.

    Raises:
        CaptureError: A capture holds no scores.
    """
    nats = np.full(len(captured_item.prepared.alignment.subwords), np.nan)
    captured = [capture.scores for capture in captured_item.captures]
    scores = [score for score in captured if score is not None and len(score.nats) == len(nats)]
    has_gaps = objective != INFILL or all(
        score.scored[list(gap)].all() for gap, score in zip(inputs, scores, strict=False)
    )
    if not has_gaps or len(scores) != (1 if objective == CAUSAL else len(inputs)):
        item = captured_item.prepared.item
        raise CaptureError(
            f"item {item.path!r} {item.name!r}: a text of a pair has no scores; capture and alignment have "
            "to use one tokenizer"
        )
    if objective == INFILL:
        return [score.nats for score in scores]
    counted = [scores[0].scored] if objective == CAUSAL else [hidden[0] for hidden in inputs]
    for positions, score in zip(counted, scores, strict=True):
        nats[positions] = score.nats[positions]
    return [nats]


def _sum_scores(nats: np.ndarray[Any, Any], positions: range, item: Item) -> Iterator[float | int]:
    """Sum over some positions, and count those with a score; a first subword may have none."""
    part = nats[positions.start : positions.stop].astype(np.float64)
    finite = part[~np.isnan(part)]
    if not np.isfinite(finite).all():
        raise CaptureError(f"item {item.path!r} {item.name!r}: a surprisal is not finite; {explain_nan()}")
    yield float(finite.sum())
    yield len(finite)


PREFERRED = "preferred"


PLACE = "at"
"""Dimension of what is summed at the changed place alone."""


_TIE = 1e-4
"""Nats within which two texts are as likely: single precision tells no more of a sum over a text."""


_DISTANCE_CLASS = (
    pl.when(pl.col("distance") > 128)
    .then(pl.lit("129+"))
    .when(pl.col("distance") > 32)
    .then(pl.lit("033-128"))
    .when(pl.col("distance") > 8)
    .then(pl.lit("009-032"))
    .when(pl.col("distance") > 0)
    .then(pl.lit("001-008"))
)
"""Class of the code tokens from the declaration, in names that sort by size; null without a distance."""


_LABEL_COLUMNS = ("operator", "distance", "parses", "frequency", "ngram_nats")


_PAIR = ("task", "source_id")


def _likelier(original: pl.Expr, mutant: pl.Expr, tie: float = 0.0) -> pl.Expr:
    """Build an expression that is 1 if the original costs less, and a half if both cost the same."""
    difference = mutant.cast(pl.Float64) - original
    return pl.when(difference.abs() <= tie).then(0.5).otherwise((difference > 0).cast(pl.Float64))


CONTROLS: Mapping[str, pl.Expr] = {
    "chance": pl.lit(0.5),
    "length": _likelier(pl.col("subwords"), pl.col("subwords_mutant")),
    "ngram": _likelier(pl.col("ngram_nats"), pl.col("ngram_nats_mutant"), _TIE),
    "parse_error": _likelier(~pl.col("parses"), ~pl.col("parses_mutant")),
    "frequency": _likelier(-pl.col("frequency"), -pl.col("frequency_mutant")),
}
"""What tells the original from the mutant without a model: that it has fewer subwords, that n-grams of code
tokens find it likelier, that it alone parses, that its name is the more frequent one. Ties count half,
as does what a control says nothing of."""


def pairs_frame(observations: pl.LazyFrame, labels: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Join the two texts of each pair that were both read.

    The columns of the original have their names, those of the mutant end in ``_mutant``; ``margin`` and
    ``place_margin`` are the nats by which the mutant costs more, over the text and at the place alone. What
    stands before the place cancels where both texts have it in the same subwords; where a tokenizer cuts it
    otherwise, all of the text counts.
    """
    rows = observations.collect()
    label_columns = [
        table.select(pl.lit(task).alias("task"), "item_id", "source_id", *_LABEL_COLUMNS)
        for task, table in labels.items()
    ]
    rows = rows.join(pl.concat(label_columns), on=["task", "source_id", "item_id"], how="inner")
    sides = rows.partition_by("original", as_dict=True)
    empty = rows.clear()
    originals, mutants = (sides.get((side,), empty) for side in (True, False))
    text_margin = pl.col("nats_mutant") - pl.col("nats")
    prefix_margin = pl.col("before_nats_mutant") - pl.col("before_nats")
    is_same_prefix = pl.col("before_subwords_mutant") == pl.col("before_subwords")
    return (
        originals.join(mutants, on=list(_PAIR), how="inner", suffix="_mutant")
        .with_columns(
            margin=pl.when(is_same_prefix).then(text_margin).otherwise(text_margin + prefix_margin),
            place_margin=pl.col("place_nats_mutant") - pl.col("place_nats"),
            distance=_DISTANCE_CLASS,
        )
        .sort(*_PAIR)
    )


def score_pairs(scoring: ScoringContext, template: Score, minimum: int) -> Iterator[Score]:
    """Score the share of pairs whose original is likelier, and the margin in nats, by task.

    Over the text from the place on (no dimension) and at the place alone (``at=place``); by operator,
    distance from the declaration and construct; the controls, and the paired gain over each.
    """
    if not scoring.labels:
        # Two runs whose pairs differ have none to be compared by.
        return
    frame = pairs_frame(scoring.observations, scoring.labels)
    for task_template, pairs in split_by(frame, "task", template):
        yield from means(pairs, _of_model("margin"), task_template)
        yield from means(pairs, _of_model("place_margin"), task_template.within((PLACE, "place")))
        for name in ("operator", "distance", "construct"):
            rows = pairs.filter(pl.col(name) != "")
            yield from means(rows, _of_model("margin"), task_template, by=name, minimum=minimum)
        yield from _score_controls(pairs, task_template)


def _of_model(margin: str) -> list[Mean]:
    preferred = _likelier(pl.lit(0.0), pl.col(margin), _TIE)
    return [Mean("preferred", preferred), Mean("margin", pl.col(margin), "real")]


def _score_controls(pairs: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score each control that decides some pair, and the model's gain over it."""
    (preferred, _) = _of_model("margin")
    for control, prefers in CONTROLS.items():
        if pairs.select(prefers.is_null().all()).item():
            continue
        baseline = prefers.fill_null(0.5)
        control_template = dataclasses.replace(template, control=control)
        for score in means(pairs, [Mean(PREFERRED, baseline)], control_template):
            is_exact = control == "chance"
            yield (
                dataclasses.replace(score, ci_low=None, ci_high=None, ci_method="", df=None)
                if is_exact
                else score
            )
        gain = dataclasses.replace(
            preferred,
            metric="gain",
            baseline=baseline,
            fields={"of_metric": PREFERRED, "compared_to": control},
        )
        yield from means(pairs, [gain], template)
