"""How often a model finds the original of a minimal pair likelier, beside what needs no model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.surprisal.options import SurprisalOptions
from sonde.results import Mean, Score, means

PREFERRED = "preferred"
PLACE = "at"
"""Dimension of what is summed at the changed place alone."""

_TIE = 1e-4
"""Nats within which two texts are as likely: single precision tells no more of a sum over a text."""

_DISTANCES = (8, 32, 128)
"""Code tokens from the declaration at which another class of distance begins."""

_BESIDE = ("operator", "distance", "parses", "frequency", "ngram_nats")
_PAIR = ("task", "source_id")


def _likelier(original: pl.Expr, mutant: pl.Expr, tie: float = 0.0) -> pl.Expr:
    """1 where the original costs less, a half where both cost the same."""
    apart = mutant.cast(pl.Float64) - original
    return pl.when(apart.abs() <= tie).then(0.5).otherwise((apart > 0).cast(pl.Float64))


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
    """One row a pair of which both texts were read.

    The columns of the original have their names, those of the mutant end in ``_mutant``; ``margin`` and
    ``place_margin`` are the nats by which the mutant costs more, over the text and at the place alone. What
    stands before the place cancels where both texts have it in the same subwords; where a tokenizer cuts it
    otherwise, all of the text counts.
    """
    rows = observations.collect()
    beside = [
        table.select(pl.lit(task).alias("task"), "item_id", "source_id", *_BESIDE)
        for task, table in labels.items()
    ]
    rows = rows.join(pl.concat(beside), on=["task", "source_id", "item_id"], how="inner")
    sides = rows.partition_by("original", as_dict=True)
    empty = rows.clear()
    originals, mutants = (sides.get((side,), empty) for side in (True, False))
    whole = pl.col("nats_mutant") - pl.col("nats")
    before = pl.col("before_nats_mutant") - pl.col("before_nats")
    same = pl.col("before_subwords_mutant") == pl.col("before_subwords")
    return (
        originals.join(mutants, on=list(_PAIR), how="inner", suffix="_mutant")
        .with_columns(
            margin=pl.when(same).then(whole).otherwise(whole + before),
            place_margin=pl.col("place_nats_mutant") - pl.col("place_nats"),
            distance=_classes(pl.col("distance")),
        )
        .sort(*_PAIR)
    )


def _classes(distance: pl.Expr) -> pl.Expr:
    """Distances in classes that sort as they lie; null where there is none."""
    edges = (0, *_DISTANCES)
    found = pl.when(distance > _DISTANCES[-1]).then(pl.lit(f"{_DISTANCES[-1] + 1:03}+"))
    for low, high in zip(reversed(edges[:-1]), reversed(edges[1:]), strict=True):
        found = found.when(distance > low).then(pl.lit(f"{low + 1:03}-{high:03}"))
    return found.otherwise(None)


def score_pairs(scoring: Scoring) -> Iterator[Score]:
    """The share of the pairs whose original is likelier, and by how many nats, task by task.

    Over the text from the place on (no dimension) and at the place alone (``at=place``); by operator,
    distance from the declaration and construct; the controls, and the paired gain over each.
    """
    if not scoring.labels:
        # Two runs whose pairs differ have none to be compared by.
        return
    frame = pairs_frame(scoring.observations, scoring.labels)
    minimum = SurprisalOptions.read(scoring.settings.options).min_count
    for (task,), pairs in sorted(frame.partition_by("task", as_dict=True).items()):
        template = dataclasses.replace(scoring.template, task=str(task))
        yield from means(pairs, _of_model("margin"), template)
        yield from means(pairs, _of_model("place_margin"), template.within((PLACE, "place")))
        for name in ("operator", "distance", "construct"):
            held = pairs.filter(pl.col(name) != "")
            yield from means(held, _of_model("margin"), template, by=name, minimum=minimum)
        yield from _beside(pairs, template)


def _of_model(margin: str) -> list[Mean]:
    preferred = _likelier(pl.lit(0.0), pl.col(margin), _TIE)
    return [Mean("preferred", preferred), Mean("margin", pl.col(margin), "real")]


def _beside(pairs: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Each control that can say something of some pair, and what the model is right on beyond it."""
    (preferred, _) = _of_model("margin")
    for control, found in CONTROLS.items():
        if pairs.select(found.is_null().all()).item():
            continue
        told = found.fill_null(0.5)
        named = dataclasses.replace(template, control=control)
        for score in means(pairs, [Mean(PREFERRED, told)], named):
            known = control == "chance"
            yield (
                dataclasses.replace(score, ci_low=None, ci_high=None, ci_method="", df=None)
                if known
                else score
            )
        gain = dataclasses.replace(
            preferred, metric="gain", less=told, fields={"of_metric": PREFERRED, "compared_to": control}
        )
        yield from means(pairs, [gain], template)
