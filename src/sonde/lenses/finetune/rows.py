"""The item table: what every method answered to every example, and how its training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sonde.corpora import Item
from sonde.lenses.finetune.bias import bias_predictions
from sonde.lenses.finetune.data import TESTED
from sonde.lenses.finetune.options import BAG
from sonde.results.columns import Columns, schema_of
from sonde.tasks import Dataset
from sonde.tasks._surface import surface_predictions

if TYPE_CHECKING:
    from sonde.training.finetuning.answers import Answers
    from sonde.training.finetuning.data import Data, Sample
    from sonde.training.finetuning.tune import Tuned

ROWS_COLUMNS: Columns = {
    "kind": (pl.String, "what the row is about: `example`, `epoch` or `attention`"),
    "baseline": (
        pl.String,
        "empty; of `bag_of_tokens` which baseline answers: that, `majority`, `length`, `parse_error`, "
        "`artefacts`, `bag_of_bigrams`, `ngram_surprisal`",
    ),
    "example_id": (pl.String, "the example"),
    "item_id": (pl.String, "its input"),
    "split": (pl.String, "its split"),
    "cluster": (pl.String, "its unit of resampling"),
    "label": (pl.String, "its label"),
    "predicted": (pl.String, "the class; of a pointer `nothing` or `something`"),
    "classes": (pl.List(pl.String), "every class"),
    "probability": (pl.List(pl.Float32), "the probability of each"),
    "correct": (pl.Boolean, "all of it is right"),
    "located": (pl.Boolean, "pointers only: the pointer of the error is right"),
    "repaired": (pl.Boolean, "pointers only: the pointer of the repair is right"),
    "buggy": (pl.Boolean, "pointers only: there is an error"),
    "truncated": (
        pl.Boolean,
        "something is not read: of a pointer its error or all its repairs, else any of the text",
    ),
    "reached": (
        pl.Boolean,
        "what the label rests on is read, and in the other example of the function as well; null where "
        "that is not known",
    ),
    "locatable": (pl.Boolean, "pointers only: the right place of the error is read"),
    "read": (pl.String, "hash of the subwords that were read: examples that share it get one answer"),
    "pointed_start": (
        pl.Int32,
        "first character that the pointer of the error points at, or that a head reading subword by subword "
        "rests on; null for nothing",
    ),
    "pointed_end": (pl.Int32, "end of these characters, exclusive"),
    "repair_start": (pl.Int32, "first character that the pointer of the repair points at; null for nothing"),
    "repair_end": (pl.Int32, "end of these characters, exclusive"),
    "epoch": (pl.Int32, "of an epoch: its number"),
    "rate": (pl.Float64, "its learning rate"),
    "batch": (pl.Int32, "its batch size"),
    "epochs": (pl.Int32, "epochs of its setting"),
    "chosen": (pl.Boolean, "its weights were kept"),
    "loss": (pl.Float64, "its mean loss"),
    "valid": (pl.Float64, "what is right on validation"),
    "words": (pl.List(pl.String), "of an attention: the words"),
    "starts": (pl.List(pl.Int32), "their first characters, -1 around the text"),
    "weights": (pl.Binary, "attention (float16, word x word)"),
}
"""Columns of the item table of one training."""

ROWS_SCHEMA = schema_of(ROWS_COLUMNS)

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


def asked_rows(
    answers: Answers, examples: pl.DataFrame, classes: Sequence[str], samples: Sequence[Sample]
) -> pl.DataFrame:
    """The rows of a model that was not trained here: its answers alone."""
    return pl.DataFrame(_answers(answers, examples, classes, samples), schema=dict(ROWS_SCHEMA))


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
        from sonde.training.finetuning.data import variable_at

        for row, sample, spans in zip(rows, samples, answers.pointed.tolist(), strict=True):
            for name, (start, end) in zip(_POINTERS, spans, strict=False):
                if row["predicted"] != "nothing" and start >= 0:
                    row[f"{name}_start"], row[f"{name}_end"] = variable_at(sample, (start, end))
    return rows


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ("example_id", "item_id", "split", "cluster", "label")}
    return {"kind": EXAMPLE, "baseline": "", **kept}


def baseline_rows(
    task: str, splits: Mapping[str, pl.DataFrame], language: str, *, pointer: bool
) -> pl.DataFrame:
    """The rows of what needs no model: a bag of tokens, and beside it majority, length and parse errors.

    Where examples come as a function and its changed copy, also what their neighbours give away
    (`sonde.lenses.finetune.bias`). Of a pointer's task they tell whether there is an error, and nothing of
    where it is.
    """
    examples = pl.concat(list(splits.values()))
    nothing = pl.lit(None, pl.Int32)
    # The whole text is what they look at, both texts of a pair among them.
    told = pl.when(pl.col("split").is_in(TESTED)).then(pl.lit("test")).otherwise("split")
    blank = {"other_start": nothing, "other_end": nothing, "type": pl.lit(""), "split": told}
    frame = examples.with_columns(**blank).drop("text")
    data = Dataset(task=task, version="", examples=frame, inputs=())
    found = surface_predictions(data, _items(examples, language)).drop("correct", "chosen").rows()
    if (splits["test"]["group"] != "").any():
        names = splits["test"]["example_id"].to_list()
        for control, said in bias_predictions(splits).items():
            found += [(name, control, one) for name, one in zip(names, said, strict=True)]
    test = {row["example_id"]: row for row in splits["test"].iter_rows(named=True)}
    rows: list[dict[str, Any]] = []
    for name, control, said in found:
        example = test[name]
        rows.append(
            {
                **_shared(example),
                "baseline": control,
                "predicted": said,
                "correct": said == example["label"],
                "buggy": example["start"] < example["end"] if pointer else None,
            }
        )
    assert any(row["baseline"] == BAG for row in rows)
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA))


def _items(examples: pl.DataFrame, language: str) -> list[Item]:
    return [
        Item(name, text, language, "function")
        for name, text in examples.select("item_id", "text").unique("item_id").iter_rows()
    ]
