"""From the examples of a task to what a model is trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.tasks._misuse import pointers
from sonde.training.finetuning.data import Data, Sample

POINTER_TASKS = frozenset({"misuse_repair"})
"""Tasks that ask for two places rather than for a class."""


def data_of(task: str, splits: Mapping[str, pl.DataFrame], language: str) -> Data:
    """What a model is trained on.

    Args:
        task: Public name of the task.
        splits: Its examples by split, with what `sonde.lenses.finetune.evidence` adds.
        language: Their language.

    Raises:
        InputError: A split is empty, or the task is about places of a text and not about the text.
    """
    for split, rows in splits.items():
        if rows.is_empty():
            raise InputError(f"task {task!r} has no example in split {split!r}; draw from more code")
    classes = tuple(sorted(splits["train"]["label"].unique().to_list()))
    if len(classes) < 2:
        number = splits["train"].height
        raise InputError(
            f"task {task!r}: all {number} training examples are {''.join(classes)!r} and leave nothing to "
            "tell apart; draw from more code or train on a larger fraction"
        )
    parts = {
        split: [_sample(task, row, classes, language) for row in rows.iter_rows(named=True)]
        for split, rows in splits.items()
    }
    return Data(classes, parts["train"], parts["valid"], parts["test"])


def _sample(task: str, row: Mapping[str, Any], classes: tuple[str, ...], language: str) -> Sample:
    text: str = row["text"]
    # A class that is not in train cannot be told; it counts as wrong.
    target = classes.index(row["label"]) if row["label"] in classes else -1
    start, end = row["evidence_start"], row["evidence_end"]
    evidence = None if start is None else (start, end)
    if task in POINTER_TASKS:
        return dataclasses.replace(
            _pointer(row, text, target, language), evidence=evidence, group=row["group"]
        )
    if row["other_start"] is None:
        return Sample(row["example_id"], text, target, evidence=evidence, group=row["group"])
    outside = text[: row["start"]] + text[row["end"] : row["other_start"]] + text[row["other_end"] :]
    if outside.strip() or row["end"] >= row["other_start"]:
        raise InputError(
            f"task {task!r} is about two places of a text; lens 'finetune' takes whole texts and pairs of "
            "them, lens 'probe' takes places"
        )
    return Sample(
        row["example_id"], text, target, second=row["other_start"], evidence=evidence, group=row["group"]
    )


def _pointer(row: Mapping[str, Any], text: str, target: int, language: str) -> Sample:
    repair = None if row["other_start"] is None else (row["other_start"], row["other_end"])
    found = pointers(text, language, (row["start"], row["end"]), repair)
    return Sample(
        row["example_id"],
        text,
        target,
        candidates=found.candidates,
        error=found.error,
        repairs=found.targets,
    )
