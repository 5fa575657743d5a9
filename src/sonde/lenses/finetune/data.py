"""Training data of a task (training, validation and test examples), and the item table of its results.

The label of an example rests on the characters in which a function and its changed copy differ
(`find_difference`). The item table holds the answer of every method to every example, and the course of each
training.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.languages.engine.text import common_prefix_length
from sonde.lenses.finetune.options import BAG, POINTER_TASKS
from sonde.results.schema import Columns, to_schema
from sonde.tasks import Dataset
from sonde.tasks.engine.bugs import find_pointers
from sonde.tasks.engine.surface import bias_predictions, surface_predictions
from sonde.training.finetune.data import Sample, Span, TaskData, find_candidate

if TYPE_CHECKING:
    from sonde.training.finetune.predict import ExamplePredictions
    from sonde.training.finetune.tune import FinetuneResult

TEST, EXTERNAL = "test", "external"


TESTED = (TEST, EXTERNAL)
"""Splits that are scored: the corpus's own, and an external test set."""


def split_examples(
    examples: pl.DataFrame, fraction: float, valid: int, limit: int = 0, seed: int = 0
) -> dict[str, pl.DataFrame]:
    """Split the examples; of a split that is too large, take as many as requested, by hash.

    Args:
        examples: All of them.
        fraction: Share of train that is used.
        valid: Examples of valid at most.
        limit: Examples of train at most, each function with its changed copy; 0 for all. More of them contain
            fewer.
        seed: Which of them they are.
    """
    parts = {
        name: examples.filter(pl.col("split").is_in(names)).sort("example_id")
        for name, names in (("train", ("train",)), ("valid", ("valid",)), ("test", TESTED))
    }
    size = max(1, round(fraction * parts["train"].height))
    train = _sample_examples(parts["train"], "fraction", size)
    return {
        "train": _whole_groups(train, limit, seed) if limit else train,
        "valid": _sample_examples(parts["valid"], "valid", valid),
        "test": parts["test"],
    }


def _sample_examples(rows: pl.DataFrame, purpose: str, size: int) -> pl.DataFrame:
    if rows.height <= size:
        return rows
    hashes = pl.Series([unit_hash(purpose, name) for name in rows["example_id"].to_list()])
    return rows[hashes.arg_sort()[:size].sort()]


def _whole_groups(rows: pl.DataFrame, limit: int, seed: int) -> pl.DataFrame:
    """Take groups in hash order until they contain `limit` examples."""
    groups = [group or name for name, group in rows.select("example_id", "group").iter_rows()]
    order = sorted(
        range(len(groups)), key=lambda row: (unit_hash("examples", seed, groups[row]), groups[row])
    )
    selection = order[:limit]
    if len(selection) < len(order) and groups[order[limit]] == groups[selection[-1]] != groups[selection[0]]:
        # Half of a pair would teach its label by its function.
        selection = [row for row in selection if groups[row] != groups[selection[-1]]]
    return rows[sorted(selection)]


EVIDENCE = {"evidence_start": pl.Int32, "evidence_end": pl.Int32, "group": pl.String}
"""Columns that `with_evidence` adds.

- ``evidence_start, evidence_end``: characters of the text; null where they are not known.
- ``group``: what two examples share that were made of one function and differ in it; else empty.
"""


def with_evidence(examples: pl.DataFrame) -> pl.DataFrame:
    """Add the characters that each example's label rests on; see `EVIDENCE`.

    Of two examples of one function these are the characters in which they differ, of an example alone the
    labelled part of its text. Published files do not say which examples belong together.
    """
    source = "source_id" if "source_id" in examples.columns else "item_id"
    rows = examples.select("split", source, "label", "start", "end", "other_start", "text").to_dicts()
    made_of: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        made_of[row["split"], row[source]].append(number)
    evidence: list[tuple[int | None, int | None, str]] = [(None, None, "")] * len(rows)
    for (_, function), members in made_of.items():
        if len(members) == 2 and rows[members[0]]["label"] != rows[members[1]]["label"]:
            for member, stretch in zip(
                members, find_difference(*(rows[index]["text"] for index in members)), strict=True
            ):
                evidence[member] = (*stretch, function)
        elif len(members) == 1:
            row = rows[members[0]]
            if row["other_start"] is None and 0 < row["end"] - row["start"] < len(row["text"]):
                evidence[members[0]] = (row["start"], row["end"], "")
    return examples.hstack(pl.DataFrame(evidence, schema=EVIDENCE, orient="row"))


def find_difference(first: str, second: str) -> tuple[Span, Span]:
    """Return the characters between the common prefix and the common suffix of two texts.

    >>> find_difference("a is b", "a is not b")
    ((5, 5), (5, 9))
    """
    prefix_length = common_prefix_length(first, second)
    maximum = min(len(first), len(second)) - prefix_length
    suffix_length = min(maximum, common_prefix_length(first[::-1], second[::-1]))
    return (prefix_length, len(first) - suffix_length), (prefix_length, len(second) - suffix_length)


def build_training_data(task: str, splits: Mapping[str, pl.DataFrame], language: str) -> TaskData:
    """Build the training data of a task.

    Args:
        task: Public name of the task.
        splits: Its examples by split, with what `with_evidence` adds.
        language: Their language.

    Raises:
        InputError: A split is empty, or the task is about places of a text and not about the text.
    """
    for split, rows in splits.items():
        if rows.is_empty():
            raise InputError(f"task {task!r} has no example in split {split!r}; use a larger corpus")
    classes = tuple(sorted(splits["train"]["label"].unique().to_list()))
    if len(classes) < 2:
        number = splits["train"].height
        raise InputError(
            f"task {task!r}: all {number} training examples are {''.join(classes)!r}, but two classes are "
            f"needed; use a larger corpus or train on a larger fraction"
        )
    parts = {split: build_samples(task, rows, classes, language) for split, rows in splits.items()}
    return TaskData(classes, parts["train"], parts["valid"], parts["test"])


def build_samples(task: str, rows: pl.DataFrame, classes: tuple[str, ...], language: str) -> list[Sample]:
    """Build the samples of a table of examples.

    Args:
        task: Public name of the task.
        rows: With what `with_evidence` adds.
        classes: Names of the classes, in their order.
        language: Of the examples.

    Raises:
        InputError: The task is about places of a text and not about the text.
    """
    return [_sample(task, row, classes, language) for row in rows.iter_rows(named=True)]


def _sample(task: str, row: Mapping[str, Any], classes: tuple[str, ...], language: str) -> Sample:
    text: str = row["text"]
    # A class that is not in train cannot be told; it counts as wrong.
    target = classes.index(row["label"]) if row["label"] in classes else -1
    start, end = row["evidence_start"], row["evidence_end"]
    evidence = None if start is None else (start, end)
    sample = Sample(row["example_id"], text, target, evidence=evidence, group=row["group"])
    if task in POINTER_TASKS:
        repair = None if row["other_start"] is None else (row["other_start"], row["other_end"])
        pointers = find_pointers(text, language, (row["start"], row["end"]), repair)
        return dataclasses.replace(
            sample, candidates=pointers.candidates, error=pointers.error, repairs=pointers.targets
        )
    if row["other_start"] is None:
        return sample
    outside_text = text[: row["start"]] + text[row["end"] : row["other_start"]] + text[row["other_end"] :]
    if outside_text.strip() or row["end"] >= row["other_start"]:
        raise InputError(
            f"task {task!r} labels two places of a text; lens 'finetune' needs whole texts or pairs of "
            f"texts; lens 'probe' can read places"
        )
    return dataclasses.replace(sample, second=row["other_start"])


ROWS_COLUMNS: Columns = {
    "kind": (pl.String, "what the row describes: `example`, `epoch` or `attention`"),
    "baseline": (
        pl.String,
        "empty, except for `bag_of_tokens`: the baseline of the row (`bag_of_tokens`, `majority`, `length`, "
        "`parse_error`, `artefacts`, `bag_of_bigrams`, `ngram_surprisal`)",
    ),
    "example_id": (pl.String, "the example"),
    "item_id": (pl.String, "its input"),
    "split": (pl.String, "its split"),
    "cluster": (pl.String, "unit of resampling"),
    "label": (pl.String, "its label"),
    "predicted": (pl.String, "the class; of a pointer `nothing` or `something`"),
    "classes": (pl.List(pl.String), "every class"),
    "probability": (pl.List(pl.Float32), "the probability of each"),
    "correct": (pl.Boolean, "whether the answer is right in all parts"),
    "located": (pl.Boolean, "pointers only: whether the pointer to the error is right"),
    "repaired": (pl.Boolean, "pointers only: whether the pointer to the repair is right"),
    "buggy": (pl.Boolean, "pointers only: whether there is an error"),
    "truncated": (
        pl.Boolean,
        "whether something is truncated: for pointers the error or all of its repairs, else any text",
    ),
    "reached": (
        pl.Boolean,
        "whether the text that decides the label is read, in this example and in the other one of its "
        "function; null if unknown",
    ),
    "locatable": (pl.Boolean, "pointers only: whether the right place of the error is read"),
    "read": (
        pl.String,
        "hash of the subwords that were read: examples with the same hash get the same answer",
    ),
    "pointed_start": (
        pl.Int32,
        "first character that the error pointer points at, or that a head over subwords relies on; null for "
        "nothing",
    ),
    "pointed_end": (pl.Int32, "end of these characters, exclusive"),
    "repair_start": (pl.Int32, "first character that the repair pointer points at; null for nothing"),
    "repair_end": (pl.Int32, "end of these characters, exclusive"),
    "epoch": (pl.Int32, "rows of an epoch: its number"),
    "rate": (pl.Float64, "its learning rate"),
    "batch": (pl.Int32, "its batch size"),
    "epochs": (pl.Int32, "epochs of its setting"),
    "chosen": (pl.Boolean, "whether its weights were kept"),
    "loss": (pl.Float64, "its mean loss"),
    "valid": (pl.Float64, "its score on validation"),
    "words": (pl.List(pl.String), "rows of attention: the words"),
    "starts": (pl.List(pl.Int32), "first characters of the words, -1 for special tokens around the text"),
    "weights": (pl.Binary, "attention (float16, word x word)"),
}
"""Columns of the item table of one training."""


ROWS_SCHEMA = to_schema(ROWS_COLUMNS)


EXAMPLE, EPOCH, ATTENTION = "example", "epoch", "attention"


_POINTERS = ("pointed", "repair")


def trained_rows(result: FinetuneResult, splits: Mapping[str, pl.DataFrame], data: TaskData) -> pl.DataFrame:
    """Build the rows of a trained model: its answers to valid and test, and its epochs."""
    rows = [
        *_answers(result.valid, splits["valid"], data.classes, data.valid),
        *_answers(result.test, splits["test"], data.classes, data.test),
    ]
    for setting, course in result.courses.items():
        rows += [
            {
                "kind": EPOCH,
                "epoch": epoch.epoch,
                "rate": setting.rate,
                "batch": setting.batch,
                "epochs": setting.epochs,
                "chosen": setting == result.setting and epoch.epoch == result.epoch,
                "loss": epoch.loss,
                "valid": epoch.valid,
            }
            for epoch in course
        ]
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA))


def answer_rows(
    answers: ExamplePredictions, examples: pl.DataFrame, classes: Sequence[str], samples: Sequence[Sample]
) -> pl.DataFrame:
    """Build the rows of a model that was not trained here: only its answers."""
    return pl.DataFrame(_answers(answers, examples, classes, samples), schema=dict(ROWS_SCHEMA))


def _answers(
    answers: ExamplePredictions, examples: pl.DataFrame, classes: Sequence[str], samples: Sequence[Sample]
) -> list[dict[str, Any]]:
    pointer = answers.located is not None
    rows: list[dict[str, Any]] = []
    for index, example in enumerate(examples.iter_rows(named=True)):
        row = _shared_fields(example)
        row["truncated"] = bool(answers.truncated[index])
        row["reached"], row["read"] = answers.reached[index], answers.read[index]
        row["correct"] = bool(answers.correct[index])
        row["probability"] = answers.probability[index].tolist()
        if answers.located is not None and answers.repaired is not None:
            row["located"], row["repaired"] = bool(answers.located[index]), bool(answers.repaired[index])
            row["locatable"] = not np.isnan(answers.chance[index])
        answer = int(answers.predicted[index])
        row["classes"] = ["nothing", "something"] if pointer else list(classes)
        row["predicted"] = row["classes"][answer]
        row["buggy"] = example["start"] < example["end"] if pointer else None
        rows.append(row)
    if answers.pointed is not None:
        for row, sample, spans in zip(rows, samples, answers.pointed.tolist(), strict=True):
            for name, (start, end) in zip(_POINTERS, spans, strict=False):
                if row["predicted"] != "nothing" and start >= 0:
                    row[f"{name}_start"], row[f"{name}_end"] = find_candidate(sample, (start, end))
    return rows


def _shared_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in ("example_id", "item_id", "split", "cluster", "label")}
    return {"kind": EXAMPLE, "baseline": "", **fields}


def baseline_rows(
    task: str, splits: Mapping[str, pl.DataFrame], language: str, *, pointer: bool
) -> pl.DataFrame:
    """Build the rows of what needs no model: a bag of tokens, majority, length and parse errors.

    Where examples come as a function and its changed copy, also what their neighbours give away
    (`sonde.tasks.engine.surface`). Of a pointer's task they tell whether there is an error, and nothing of
    where it is.
    """
    examples = pl.concat(list(splits.values()))
    null = pl.lit(None, pl.Int32)
    # The whole text is what they look at, both texts of a pair among them.
    split = pl.when(pl.col("split").is_in(TESTED)).then(pl.lit("test")).otherwise("split")
    blank = {"other_start": null, "other_end": null, "type": pl.lit(""), "split": split}
    frame = examples.with_columns(**blank).drop("text")
    data = Dataset(task=task, version="", examples=frame, inputs=())
    predictions = surface_predictions(data, _items(examples, language)).drop("correct", "chosen").rows()
    if (splits["test"]["group"] != "").any():
        names = splits["test"]["example_id"].to_list()
        for control, answer in bias_predictions(splits).items():
            predictions += [(name, control, label) for name, label in zip(names, answer, strict=True)]
    test = {row["example_id"]: row for row in splits["test"].iter_rows(named=True)}
    rows: list[dict[str, Any]] = []
    for name, control, answer in predictions:
        example = test[name]
        rows.append(
            {
                **_shared_fields(example),
                "baseline": control,
                "predicted": answer,
                "correct": answer == example["label"],
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
