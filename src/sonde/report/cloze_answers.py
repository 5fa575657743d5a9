"""Quizzes with what the model answers, wrong ones first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from sonde.report._cloze import LENS, TEMPLATES
from sonde.report._numbers import DASH, count, number, readable
from sonde.report._plot import Cell, Figure, Table
from sonde.report._run import ModelInfo, RunData

_SHOWN = 200
_ANSWERS = 5
_LABELS = "labels/task=api_cloze/*.parquet"
_COLUMNS = ("quiz_id", "template", "mode", "prefix", "answer", "suffix", "calls")


class ClozeAnswers:
    """A table of quizzes."""

    title = "Names of APIs: what is answered"
    lens = LENS
    order = 420
    caption = (
        "Quizzes with the first answers and their probabilities, wrong ones first and among them the names "
        "that the corpus calls most. [?] is what was asked for."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The most called names of each model's wrong answers, then of its right ones."""
        quizzes = _quizzes(run)
        cells = [cell for model in run.models for cell in _cells(run, model, quizzes)]
        if not cells:
            return None
        columns = ["Model", "Statement", "Quiz", "Answer", "Rank", "Answered", "Calls"]
        numeric = frozenset({"Rank", "Calls"})
        return Figure(
            table=Table(summary="Quizzes and answers", columns=columns, rows=cells, numeric=numeric)
        )


def _quizzes(run: RunData) -> pl.DataFrame | None:
    files = [file for file in sorted(run.directory.root.glob(_LABELS)) if ".inputs." not in file.name]
    return pl.scan_parquet(files).select(_COLUMNS).collect() if files else None


def _cells(run: RunData, model: ModelInfo, quizzes: pl.DataFrame | None) -> Iterator[Sequence[Cell]]:
    table = run.table(LENS, model)
    if table is None or quizzes is None:
        return
    answers = (
        table.filter(pl.col("rank").is_not_null()).select("quiz_id", "rank", "top", "top_nats").collect()
    )
    joined = answers.join(quizzes, on="quiz_id").filter(pl.col("template").is_in(list(TEMPLATES)))
    wrong = pl.col("rank") > 1
    order = joined.sort(wrong, "calls", "quiz_id", descending=[True, True, False])
    half = _SHOWN // 2
    shown = pl.concat([order.filter(wrong).head(half), order.filter(~wrong).head(half)])
    for row in shown.iter_rows(named=True):
        yield (
            Cell(model.label),
            Cell(f"{TEMPLATES[row['template']]}, {row['mode']}"),
            Cell(readable(f"{row['prefix']}[?]{row['suffix']}".replace("\n", "↵"))),
            Cell(row["answer"]),
            Cell(count(row["rank"]), row["rank"]),
            Cell(_answered(row)),
            Cell(count(row["calls"]), row["calls"]),
        )


def _answered(row: dict[str, Any]) -> str:
    pairs = zip(row["top"][:_ANSWERS], row["top_nats"], strict=False)
    said = [f"{readable(top.replace(' ', '␣'))} {number(math.exp(-nats), 2)}" for top, nats in pairs]
    return ", ".join(said) or DASH


plot = ClozeAnswers()
