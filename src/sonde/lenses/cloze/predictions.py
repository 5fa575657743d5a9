"""Which of the words that compete a model prefers, where the right one is not published."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses.cloze.statements import candidate_ids
from sonde.stats.scores import Score
from sonde.tasks._cloze_given import GIVEN


def preferred(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """``name, word``: the likeliest word of each entry, in the order of the quizzes; equal ones by word.

    Entries of which a word could not be asked for are left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Quizzes in `sonde.tasks._cloze_quizzes.QUIZ_SCHEMA`.
    """
    given = labels.filter(pl.col("template") == GIVEN)
    texts = pl.Series("text_id", [candidate_ids(row)[0] for row in given.iter_rows(named=True)], pl.String)
    by_quiz = answers.filter(pl.col("quiz_id").is_not_null()).select("quiz_id", asked=pl.col("nats"))
    by_text = answers.filter(pl.col("quiz_id").is_null()).select(text_id="item_id", scored=pl.col("nats"))
    joined = (
        given.select("name", "quiz_id", word="answer")
        .with_columns(texts)
        .join(by_quiz, on="quiz_id", how="left", maintain_order="left")
        .join(by_text, on="text_id", how="left", maintain_order="left")
        .with_columns(nats=pl.coalesce("asked", "scored"))
    )
    whole = joined.filter(pl.col("nats").is_not_null().all().over("name"))
    return (
        whole.sort("nats", "word", maintain_order=True)
        .unique("name", keep="first", maintain_order=True)
        .join(
            given.select("name").unique(maintain_order=True), on="name", how="right", maintain_order="right"
        )
        .drop_nulls("word")
        .select("name", "word")
    )


def prediction_scores(answers: pl.DataFrame, labels: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How often each word is preferred; the published answers would say how often rightly."""
    found = preferred(answers, labels)
    base = dataclasses.replace(template, metric="preferred", n=found.height, n_clusters=found.height)
    for word, count in found.group_by("word").len().sort("word").iter_rows():
        yield dataclasses.replace(base, slice=f"template={GIVEN};word={word}", value=count / found.height)
