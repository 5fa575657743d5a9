"""The tables of the cloze lens: P@k, MRR and log-probabilities, by every cut, beside their controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.compared import (
    aliases_of_names,
    behind_imports,
    in_frames,
    in_words,
    overlap,
    paired_aliases,
    seen_against_unseen,
)
from sonde.lenses.cloze.libraries import by_release, by_use
from sonde.lenses.cloze.observe import ANSWER
from sonde.lenses.cloze.options import ClozeOptions
from sonde.lenses.cloze.plan import CUT, ONE, RESPELLED, SEVERAL
from sonde.lenses.cloze.predictions import prediction_scores
from sonde.lenses.cloze.ranked import (
    MATCHINGS,
    PUBLISHED_MODES,
    RANDOM_WEIGHTS,
    SHARED,
    contested,
    ranked_answers,
    with_agreement,
    with_common,
    with_random_weights,
    with_seen,
)
from sonde.lenses.cloze.rates import COMPETING, KS, NAMES, at_k, by_library, by_template, chance, hit, mrr
from sonde.lenses.cloze.vocabulary import unified
from sonde.results import Mean, Score, means
from sonde.tasks._cloze_given import GIVEN
from sonde.tasks._cloze_options import ANSWERS

_CUTS: Mapping[str, str] = {
    "place": "place",
    "calls": "bucket",
    "visible": "visible",
    "agree": "agree",
}
"""Name of the dimension, and the column that makes the groups."""

_CONTROLS: Mapping[str, str] = {
    "unigram": "unigram",
    "majority": "majority",
    RANDOM_WEIGHTS: "rank_random_weights",
}
"""What answers without knowing a name (common answers and subwords of the corpus, random weights), with
the column of its ranks."""

_OF_STATEMENTS: Mapping[str, tuple[str, str]] = {
    "rank": ("candidates", "sum"),
    "rank_per_piece": ("candidates", "mean"),
    "rank_unified": ("unified", "sum"),
    "rank_common": ("common", "sum"),
}
"""Columns of ranks among candidates, with ``matching`` and ``aggregation`` of their scores."""


def score_masked(scoring: Scoring, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a masked model."""
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(scoring.observations.collect(), labels, base)
        return
    frame = _prepared(scoring, labels)
    alone = frame.filter(_ALONE)
    published = alone.filter(pl.col("mode").is_in(PUBLISHED_MODES))
    names = published.filter(pl.col("template").is_in(NAMES))
    ranked = [matching for matching in MATCHINGS if MATCHINGS[matching] in frame.columns]
    yield from _ranks(names, base, ranked)
    for template, part in by_template(published, base):
        yield from _ranks(part, template, ranked)
        yield from _cuts(part, template, ClozeOptions.read(scoring.settings.options).min_count)
    for template, part in by_template(alone, base):
        yield from _ranks(part, template, ["single"], by=["mode"])
        yield from _answers(part, template)
        if "asked_of_all" in part.columns:
            shared = dataclasses.replace(template, matching="common")
            yield from _answers(part.filter("asked_of_all"), shared)
        yield from _coverage(part, template)
    for template, part in ((base, names), *by_template(published, base)):
        yield from _controls(part, dataclasses.replace(template, matching="single"))
    minimum = ClozeOptions.read(scoring.settings.options).min_count
    yield from _compared(frame, names, labels, base, minimum)


def score_candidates(scoring: Scoring, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a model that scores whole statements."""
    answers = scoring.observations.collect()
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(answers, labels, base)
        return
    if ANSWER in answers["status"]:
        base = dataclasses.replace(base, objective=ANSWERS)
    compared = ClozeOptions.read(scoring.settings.options).unified
    shared = unified(compared) if compared else frozenset[str]()
    contest = contested(answers, labels, shared, scoring.beside)
    frame = with_seen(contest, scoring.template.model).with_columns(status=pl.lit(ONE))
    frame = with_agreement(frame, compared) if compared else frame
    frame = with_random_weights(frame, scoring, labels, contested)
    alone = frame.filter(_ALONE)
    names = alone.filter(pl.col("template").is_in(NAMES))
    for template, part in ((base, names), *by_template(alone, base)):
        for column, (matching, aggregation) in _OF_STATEMENTS.items():
            named = dataclasses.replace(template, matching=matching, aggregation=aggregation)
            among = SHARED if column == "rank_unified" else COMPETING
            yield from by_library(part, [*at_k(part, column, among), mrr(column)], named)
        summed = dataclasses.replace(template, matching="candidates", aggregation="sum")
        yield from chance(part, summed)
        yield from _controls(part, summed)
    for template, part in by_template(alone, base):
        summed = dataclasses.replace(template, matching="candidates", aggregation="sum")
        yield from by_library(part, at_k(part, "rank"), summed, by="mode")
        yield from _cuts(part, template, ClozeOptions.read(scoring.settings.options).min_count)
    minimum = ClozeOptions.read(scoring.settings.options).min_count
    yield from _compared(frame, names, labels, base, minimum)


_ALONE = (pl.col("context") == "") & (pl.col("frame") == "")
"""The statement and nothing else."""


def _compared(
    frame: pl.DataFrame, names: pl.DataFrame, labels: pl.DataFrame, base: Score, minimum: int
) -> Iterator[Score]:
    """What is said of pairs of queries and of the queries themselves, however they are scored."""
    yield from paired_aliases(frame, base)
    yield from in_words(frame, base)
    yield from behind_imports(frame, base)
    yield from in_frames(frame, base)
    yield from by_use(names, base, minimum)
    yield from by_release(names, base)
    yield from seen_against_unseen(names, base)
    yield from overlap(names, base)
    yield from aliases_of_names(labels, base)


def _prepared(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame:
    model = scoring.template.model
    frame = with_common(ranked_answers(scoring.observations.collect(), labels), scoring.beside)
    frame = with_seen(frame, model)
    frame = with_random_weights(frame, scoring, labels, ranked_answers)
    compared = ClozeOptions.read(scoring.settings.options).unified
    return with_agreement(frame, compared) if compared else frame


def _ranks(
    frame: pl.DataFrame, template: Score, matchings: list[str], by: Sequence[str] = ()
) -> Iterator[Score]:
    for matching in matchings:
        column, named = MATCHINGS[matching], dataclasses.replace(template, matching=matching)
        yield from by_library(frame, [*at_k(frame, column), mrr(column)], named, by=by)


def _cuts(frame: pl.DataFrame, template: Score, minimum: int) -> Iterator[Score]:
    """P@1, P@10 and MRR of the single answer by every cut; every k by whether the library was seen."""
    single = dataclasses.replace(template, matching="single")
    first_ten = [*at_k(frame, "rank", ks=(1, 10)), mrr("rank")]
    for cut, column in _CUTS.items():
        if column in frame.columns:
            yield from by_library(frame, first_ten, single, by={cut: pl.col(column)})
    yield from by_library(frame, at_k(frame, "rank"), single, by="seen")
    # A library has no other to be resampled with: within it, names are taken as independent.
    for score in means(frame, first_ten, single, by="library", cluster="name", minimum=minimum):
        yield dataclasses.replace(score, ci_method=f"by name, {score.ci_method}")


def _answers(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Log-probabilities, and how often all pieces of an answer rank first one after the other."""
    wanted = [
        Mean("nats", pl.col("nats"), "nonnegative"),
        Mean("nats_per_character", pl.col("nats") / pl.col("characters"), "nonnegative"),
        Mean("greedy", pl.col("greedy")),
    ]
    return by_library(frame, wanted, template, by="mode")


def _coverage(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How the model's tokenizer cuts the answers that the reference cuts into one piece."""
    one_piece = frame.filter(pl.col("mode") != "whole")
    wanted = [
        Mean(f"share_{status.replace(' ', '_')}", pl.col("status") == status)
        for status in (ONE, SEVERAL, CUT, RESPELLED)
    ]
    return by_library(one_piece, wanted, template)


def _controls(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """P@k of the controls on the queries that they and the model answer, and the model's gain over them."""
    for control, column in _CONTROLS.items():
        if column not in frame.columns:
            continue
        both = frame.filter(pl.col("rank").is_not_null() & pl.col(column).is_not_null())
        gains = [
            Mean(
                "p_at_k_gain",
                hit(both, "rank", k).cast(pl.Int8) - hit(both, column, k).cast(pl.Int8),
                "difference",
                fields={"k": k},
            )
            for k in KS
        ]
        named = dataclasses.replace(template, control=control)
        yield from by_library(both, [*at_k(both, column), *gains], named)
