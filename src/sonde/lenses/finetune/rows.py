"""The item table: what every arm answered to every example, and how its training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sonde.corpora import Item
from sonde.lenses.finetune.options import BAG
from sonde.lenses.finetune.splits import TESTED
from sonde.tasks import Dataset
from sonde.tasks._surface import surface_predictions

if TYPE_CHECKING:
    from sonde.training.finetuning.answers import Answers
    from sonde.training.finetuning.data import Data, Sample
    from sonde.training.finetuning.tune import Tuned

ROWS_SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "baseline": pl.String,
    "example_id": pl.String,
    "item_id": pl.String,
    "split": pl.String,
    "cluster": pl.String,
    "label": pl.String,
    "predicted": pl.String,
    "classes": pl.List(pl.String),
    "probability": pl.List(pl.Float32),
    "correct": pl.Boolean,
    "located": pl.Boolean,
    "repaired": pl.Boolean,
    "buggy": pl.Boolean,
    "truncated": pl.Boolean,
    "reached": pl.Boolean,
    "locatable": pl.Boolean,
    "read": pl.String,
    "pointed_start": pl.Int32,
    "pointed_end": pl.Int32,
    "repair_start": pl.Int32,
    "repair_end": pl.Int32,
    "epoch": pl.Int32,
    "rate": pl.Float64,
    "batch": pl.Int32,
    "epochs": pl.Int32,
    "chosen": pl.Boolean,
    "loss": pl.Float64,
    "valid": pl.Float64,
    "words": pl.List(pl.String),
    "starts": pl.List(pl.Int32),
    "weights": pl.Binary,
}
"""Columns of the item table; docs/design.md says what they hold."""

EXAMPLE, EPOCH, ATTENTION = "example", "epoch", "attention"

_POINTERS = ("pointed", "repair")


def trained_rows(tuned: Tuned, splits: Mapping[str, pl.DataFrame], data: Data) -> pl.DataFrame:
    """The rows of a trained model: its answers to valid and test, and its epochs."""
    rows = [
        *_answers(tuned.valid, splits["valid"], data.classes, data.valid),
        *_answers(tuned.test, splits["test"], data.classes, data.test),
    ]
    for setting, course in tuned.courses.items():
        rows += [
            {
                "kind": EPOCH,
                "epoch": epoch.epoch,
                "rate": setting.rate,
                "batch": setting.batch,
                "epochs": setting.epochs,
                "chosen": setting == tuned.setting and epoch.epoch == tuned.epoch,
                "loss": epoch.loss,
                "valid": epoch.valid,
            }
            for epoch in course
        ]
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA))


def _answers(
    answers: Answers, examples: pl.DataFrame, classes: Sequence[str], samples: Sequence[Sample]
) -> list[dict[str, Any]]:
    pointer = answers.located is not None
    rows = [_shared(row) for row in examples.iter_rows(named=True)]
    for place, row in enumerate(rows):
        row["truncated"] = bool(answers.truncated[place])
        row["reached"], row["read"] = answers.reached[place], answers.read[place]
        row["correct"] = bool(answers.correct[place])
        row["probability"] = answers.probability[place].tolist()
        if answers.located is not None and answers.repaired is not None:
            row["located"], row["repaired"] = bool(answers.located[place]), bool(answers.repaired[place])
            row["locatable"] = not np.isnan(answers.chance[place])
        said = int(answers.predicted[place])
        row["classes"] = ["nothing", "something"] if pointer else list(classes)
        row["predicted"] = row["classes"][said]
        row["buggy"] = None
    if pointer:
        for row, example in zip(rows, examples.iter_rows(named=True), strict=True):
            row["buggy"] = example["start"] < example["end"]
    if answers.pointed is not None:
        for row, sample, spans in zip(rows, samples, answers.pointed.tolist(), strict=True):
            for name, span in zip(_POINTERS, spans, strict=True):
                if row["predicted"] == "something" and span[0] >= 0:
                    row[f"{name}_start"], row[f"{name}_end"] = _whole(sample, span)
    return rows


def _whole(sample: Sample, span: Sequence[int]) -> tuple[int, int]:
    """The variable that begins in a subword, else the subword."""
    start, end = span
    for one in sample.candidates or ():
        if start <= one[0] < end:
            return one
    return start, end


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("example_id", "item_id", "split", "cluster", "label")}
    return {"kind": EXAMPLE, "baseline": "", **kept}


def baseline_rows(
    task: str, splits: Mapping[str, pl.DataFrame], language: str, *, pointer: bool
) -> pl.DataFrame:
    """The rows of what needs no model: a bag of tokens, and beside it majority, length and parse errors.

    Of a pointer's task they tell whether there is an error, and nothing of where it is.
    """
    examples = pl.concat(list(splits.values()))
    nothing = pl.lit(None, pl.Int32)
    # The whole text is what they look at, both texts of a pair among them.
    told = pl.when(pl.col("split").is_in(TESTED)).then(pl.lit("test")).otherwise("split")
    blank = {"other_start": nothing, "other_end": nothing, "type": pl.lit(""), "split": told}
    frame = examples.with_columns(**blank).drop("text")
    data = Dataset(task=task, version="", examples=frame, inputs=())
    found = surface_predictions(data, _items(examples, language))
    test = {row["example_id"]: row for row in splits["test"].iter_rows(named=True)}
    rows: list[dict[str, Any]] = []
    for one in found.iter_rows(named=True):
        example = test[one["example_id"]]
        rows.append(
            {
                **_shared(example),
                "baseline": one["control"],
                "predicted": one["prediction"],
                "correct": one["correct"],
                "buggy": example["start"] < example["end"] if pointer else None,
            }
        )
    assert any(row["baseline"] == BAG for row in rows)
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA))


def _items(examples: pl.DataFrame, language: str) -> list[Item]:
    return [
        Item(
            item_id=row["item_id"], text=row["text"], language=language, unit="function", path="", name="",
            offset=0, cluster="", repository="",
        )
        for row in examples.select("item_id", "text").unique("item_id").iter_rows(named=True)
    ]  # fmt: skip
