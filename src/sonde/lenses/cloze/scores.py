"""The tables of the cloze lens: P@k, MRR and log-probabilities, by every cut, beside their controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import polars as pl

from sonde.base.errors import UsageError
from sonde.lenses._lens import LensSettings, Scoring
from sonde.lenses._library_means import means
from sonde.lenses.cloze.controls import (
    MAJORITY,
    TWIN,
    UNIGRAM,
    twin_frame,
    with_majority,
    with_unigram,
)
from sonde.lenses.cloze.judged import (
    MATCHINGS,
    PUBLISHED_MODES,
    contested,
    judged,
    with_seen,
    with_unified,
)
from sonde.lenses.cloze.plan import CUT, ONE, SEVERAL
from sonde.lenses.cloze.predictions import prediction_scores
from sonde.stats.scores import Score
from sonde.tasks._cloze_given import GIVEN

KS = (1, 5, 10, 20, 30, 40, 50)
MINIMUM = 20

_CUTS: Mapping[str, str] = {
    "place": "place",
    "calls": "bucket",
    "visible": "visible",
    "seen": "seen",
    "agree": "agree",
}
"""Name in the slice, and the column that makes the groups."""

_CONTROLS: Mapping[str, str] = {UNIGRAM: "rank_unigram", MAJORITY: "rank_majority", TWIN: "rank_twin"}


def score_masked(scoring: Scoring, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a masked model."""
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(scoring.observations.collect(), labels, base)
        return
    frame = _prepared(scoring, labels)
    alone = frame.filter(pl.col("context") == "")
    published = alone.filter(pl.col("mode").is_in(PUBLISHED_MODES))
    names = published.filter(pl.col("template").is_in(["call", "import"]))
    ranked = [matching for matching in MATCHINGS if MATCHINGS[matching] in frame.columns]
    yield from _ranks(names, base, ranked)
    for template, part in _by_template(published, base):
        yield from _ranks(part, template, ranked)
        yield from _cuts(part, template, minimum_of(scoring.settings))
    for template, part in _by_template(alone, base):
        yield from _ranks(part, template, ["single"], by="mode")
        yield from _answers(part, template)
        yield from _coverage(part, template)
    yield from _controls(names, base)
    for template, part in _by_template(published, base):
        yield from _controls(part, template)
    yield from _paired(frame, "adversarial", base)
    yield from _in_words(frame, base)
    yield from _overlap(names, base)


def score_candidates(scoring: Scoring, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a model that scores whole statements."""
    answers = scoring.observations.collect()
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(answers, labels, base)
        return
    frame = with_seen(contested(answers, labels), scoring.template.model).with_columns(status=pl.lit(ONE))
    alone = frame.filter(pl.col("context") == "")
    names = alone.filter(pl.col("template").is_in(["call", "import"]))
    chance = 1.0 / pl.col("competing")
    for column, other in (("rank", "sum"), ("rank_per_piece", "mean")):
        for template, part in ((base, names), *_by_template(alone, base)):
            named = dataclasses.replace(template, params={"name": "candidates", "other": other})
            yield from _at_k(part, column, named)
            yield from _mrr(part, column, named)
    for template, part in ((base, names), *_by_template(alone, base)):
        named = dataclasses.replace(
            template, control="chance", metric="p_at_k", params={"name": "candidates", "k": 1}
        )
        for _, score in means(part, {"chance": chance}, named):
            yield score
        yield from _cuts(part, template, minimum_of(scoring.settings))
    yield from _twin_candidates(scoring, labels, base)
    yield from _paired(frame, "adversarial", base)


def minimum_of(settings: LensSettings) -> int:
    """Fewest quizzes that a library needs for a row of its own.

    Raises:
        UsageError: The option makes no sense.
    """
    value = settings.options.get("min_count", MINIMUM)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"lens 'cloze': option min_count = {value!r} is not a whole number of at least 1")
    return value


def _prepared(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame:
    model = scoring.template.model
    frame = judged(scoring.observations.collect(), labels)
    frame = with_majority(with_unigram(with_seen(frame, model), scoring.frequencies))
    twin = twin_frame(scoring, labels)
    if twin is not None:
        frame = frame.join(twin, on="quiz_id", how="left", maintain_order="left")
    compared = [one for one in str(scoring.settings.options.get("unified", "")).split(",") if one.strip()]
    return with_unified(frame, model, compared) if compared else frame


def _by_template(frame: pl.DataFrame, base: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        yield dataclasses.replace(base, slice=f"template={template}"), part


def _ranks(
    frame: pl.DataFrame, template: Score, matchings: list[str], by: str | None = None
) -> Iterator[Score]:
    for matching in matchings:
        named = dataclasses.replace(template, params={"name": matching})
        yield from _at_k(frame, MATCHINGS[matching], named, by)
        yield from _mrr(frame, MATCHINGS[matching], named, by)


def _at_k(frame: pl.DataFrame, column: str, template: Score, by: str | None = None) -> Iterator[Score]:
    hits = {str(k): pl.col(column) <= k for k in KS}
    for k, score in means(frame, hits, template, by=by, prefix=by or ""):
        yield dataclasses.replace(score, metric="p_at_k", params={**score.params, "k": int(k)})


def _mrr(frame: pl.DataFrame, column: str, template: Score, by: str | None = None) -> Iterator[Score]:
    for _, score in means(frame, {"mrr": 1.0 / pl.col(column)}, template, by=by, prefix=by or ""):
        yield dataclasses.replace(score, metric="mrr")


def _cuts(frame: pl.DataFrame, template: Score, minimum: int) -> Iterator[Score]:
    """P@1, P@10 and MRR of the single answer by every cut."""
    values = {"1": pl.col("rank") <= 1, "10": pl.col("rank") <= 10, "mrr": 1.0 / pl.col("rank")}
    cuts = {name: column for name, column in _CUTS.items() if column in frame.columns}
    for prefix, column in {**cuts, "library": "library"}.items():
        least = minimum if prefix == "library" else 1
        found = means(frame, values, template, by=column, prefix=prefix, minimum=least)
        for name, score in found:
            metric = "mrr" if name == "mrr" else "p_at_k"
            params: dict[str, str | int | float | None] = {"name": "single"}
            yield dataclasses.replace(
                score, metric=metric, params=params if name == "mrr" else {**params, "k": int(name)}
            )


def _answers(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Log-probabilities, and how often all pieces of an answer rank first one after the other."""
    values = {
        "nats": pl.col("nats"),
        "nats_per_character": pl.col("nats") / pl.col("characters"),
        "greedy": pl.col("greedy"),
    }
    for metric, score in means(frame, values, template, by="mode", prefix="mode"):
        yield dataclasses.replace(score, metric=metric)


def _coverage(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How the model's tokenizer cuts the answers that the reference cuts into one piece."""
    one_piece = frame.filter(pl.col("mode") != "whole")
    values = {
        f"share_{status.replace(' ', '_')}": pl.col("status") == status for status in (ONE, SEVERAL, CUT)
    }
    for metric, score in means(one_piece, values, template):
        yield dataclasses.replace(score, metric=metric)


def _controls(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """P@k of the controls on the quizzes that they and the model answer, and the model's gain over them."""
    for control, column in _CONTROLS.items():
        if column not in frame.columns:
            continue
        both = frame.filter(pl.col("rank").is_not_null() & pl.col(column).is_not_null())
        named = dataclasses.replace(template, control=control, params={"name": "single"})
        yield from _at_k(both, column, named)
        gains = {
            str(k): (pl.col("rank") <= k).cast(pl.Int8) - (pl.col(column) <= k).cast(pl.Int8) for k in KS
        }
        for k, score in means(both, gains, named):
            yield dataclasses.replace(score, metric="p_at_k_gain", params={"name": "single", "k": int(k)})


def _paired(frame: pl.DataFrame, template: str, base: Score) -> Iterator[Score]:
    """Alias quizzes against the same quizzes under adversarial aliases, each quiz its own pair."""
    hits = [(pl.col("rank") <= k).cast(pl.Float64).alias(str(k)) for k in KS]
    asked = frame.filter(pl.col("rank").is_not_null() & pl.col("mode").is_in([*PUBLISHED_MODES, "whole"]))
    others = asked.filter(pl.col("template") == template).select("base_id", *hits)
    averaged = others.group_by("base_id").agg(pl.all().mean().name.suffix(".other"))
    own = asked.filter(pl.col("template") == "alias").select("quiz_id", "library", *hits)
    pairs = own.join(averaged, left_on="quiz_id", right_on="base_id")
    values = {str(k): pl.col(str(k)) - pl.col(f"{k}.other") for k in KS}
    named = dataclasses.replace(base, slice=f"template=alias-{template}", metric="p_at_k")
    for k, score in means(pairs, values, named):
        yield dataclasses.replace(score, params={"name": "single", "k": int(k)})


def _in_words(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Quizzes behind words, averaged within a quiz, against the same quizzes alone."""
    hits = [(pl.col("rank") <= k).cast(pl.Float64).alias(str(k)) for k in KS]
    asked = frame.filter(pl.col("rank").is_not_null() & pl.col("mode").is_in(PUBLISHED_MODES))
    worded = asked.filter(pl.col("context") != "").select("base_id", *hits)
    averaged = worded.group_by("base_id").agg(pl.all().mean().name.suffix(".words"))
    own = asked.filter(pl.col("context") == "").select("quiz_id", "library", "template", *hits)
    pairs = own.join(averaged, left_on="quiz_id", right_on="base_id")
    sides = {
        "with": {str(k): pl.col(f"{k}.words") for k in KS},
        "without": {str(k): pl.col(str(k)) for k in KS},
        "with-without": {str(k): pl.col(f"{k}.words") - pl.col(str(k)) for k in KS},
    }
    for side, values in sides.items():
        for template, part in _by_template(pairs, base):
            named = dataclasses.replace(template, slice=f"{template.slice};words={side}", metric="p_at_k")
            for k, score in means(part, values, named):
                yield dataclasses.replace(score, params={"name": "single", "k": int(k)})


def _overlap(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Of the distinct answers of unseen names, the share that seen names have as well (INK, section 5.4)."""
    known = frame.filter(pl.col("seen").is_not_null())
    sides = {seen: set(known.filter(pl.col("seen") == seen)["answer"]) for seen in (True, False)}
    if not sides[False]:
        return
    value = len(sides[True] & sides[False]) / len(sides[False])
    yield dataclasses.replace(
        base, metric="answer_overlap", slice="seen=no", value=value, n=len(sides[False]), n_clusters=1
    )


def _twin_candidates(scoring: Scoring, labels: pl.DataFrame, base: Score) -> Iterator[Score]:
    for twin in scoring.twins:
        frame = contested(twin.observations.collect(), labels)
        names = frame.filter((pl.col("context") == "") & pl.col("template").is_in(["call", "import"]))
        named = dataclasses.replace(base, control=TWIN, params={"name": "candidates", "other": "sum"})
        yield from _at_k(names, "rank", named)
