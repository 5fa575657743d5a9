"""From the examples of a task to what a model is trained on, chosen on and tested on.

The label of an example rests on the characters in which a function and its changed copy differ.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.languages._text import alike
from sonde.tasks._misuse import pointers
from sonde.training.finetuning.data import Data, Sample, Span

POINTER_TASKS = frozenset({"misuse_repair"})
"""Tasks that ask for two places rather than for a class."""


TEST, EXTERNAL = "test", "external"
TESTED = (TEST, EXTERNAL)
"""Splits that are scored: the corpus's own, and an external test set."""


def splits_of(
    examples: pl.DataFrame, fraction: float, valid: int, most: int = 0, seed: int = 0
) -> dict[str, pl.DataFrame]:
    """The examples of each split, those that are few enough whole, of others as many as asked, by hash.

    Args:
        examples: All of them.
        fraction: Share of train that is used.
        valid: Examples of valid at most.
        most: Examples of train at most, each function with its changed copy; 0 for all. More of them contain
            fewer.
        seed: Which of them they are.
    """
    parts = {
        name: examples.filter(pl.col("split").is_in(held)).sort("example_id")
        for name, held in (("train", ("train",)), ("valid", ("valid",)), ("test", TESTED))
    }
    size = max(1, round(fraction * parts["train"].height))
    train = _some(parts["train"], "fraction", size)
    return {
        "train": _whole_groups(train, most, seed) if most else train,
        "valid": _some(parts["valid"], "valid", valid),
        "test": parts["test"],
    }


def _some(rows: pl.DataFrame, why: str, size: int) -> pl.DataFrame:
    if rows.height <= size:
        return rows
    drawn = pl.Series([unit_hash(why, name) for name in rows["example_id"].to_list()])
    return rows[drawn.arg_sort()[:size].sort()]


def _whole_groups(rows: pl.DataFrame, most: int, seed: int) -> pl.DataFrame:
    """As many groups as hold so many examples, by hash of the seed and the group."""
    groups = [group or name for name, group in rows.select("example_id", "group").iter_rows()]
    order = sorted(
        range(len(groups)), key=lambda row: (unit_hash("examples", seed, groups[row]), groups[row])
    )
    kept = order[:most]
    if len(kept) < len(order) and groups[order[most]] == groups[kept[-1]] != groups[kept[0]]:
        # Half of a pair would teach its label by its function.
        kept = [row for row in kept if groups[row] != groups[kept[-1]]]
    return rows[sorted(kept)]


EVIDENCE = {"evidence_start": pl.Int32, "evidence_end": pl.Int32, "group": pl.String}
"""Columns that `with_evidence` adds.

- ``evidence_start, evidence_end``: characters of the text; null where they are not known.
- ``group``: what two examples share that were made of one function and differ in it; else empty.
"""


def with_evidence(examples: pl.DataFrame) -> pl.DataFrame:
    """The examples of a task with the characters that each one's label rests on; see `EVIDENCE`.

    Of two examples of one function these are the characters in which they differ, of an example alone the
    labelled part of its text. Published files do not say which examples belong together.
    """
    source = "source_id" if "source_id" in examples.columns else "item_id"
    rows = examples.select("split", source, "label", "start", "end", "other_start", "text").to_dicts()
    made_of: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        made_of[row["split"], row[source]].append(number)
    found: list[tuple[int | None, int | None, str]] = [(None, None, "")] * len(rows)
    for (_, function), members in made_of.items():
        if len(members) == 2 and rows[members[0]]["label"] != rows[members[1]]["label"]:
            for member, stretch in zip(
                members, differing(*(rows[one]["text"] for one in members)), strict=True
            ):
                found[member] = (*stretch, function)
        elif len(members) == 1:
            row = rows[members[0]]
            if row["other_start"] is None and 0 < row["end"] - row["start"] < len(row["text"]):
                found[members[0]] = (row["start"], row["end"], "")
    return examples.hstack(pl.DataFrame(found, schema=EVIDENCE, orient="row"))


def differing(one: str, other: str) -> tuple[Span, Span]:
    """The characters of two texts between their common beginning and their common end.

    >>> differing("a is b", "a is not b")
    ((5, 5), (5, 9))
    """
    before = alike(one, other)
    most = min(len(one), len(other)) - before
    behind = min(most, alike(one[::-1], other[::-1]))
    return (before, len(one) - behind), (before, len(other) - behind)


def data_of(task: str, splits: Mapping[str, pl.DataFrame], language: str) -> Data:
    """What a model is trained on.

    Args:
        task: Public name of the task.
        splits: Its examples by split, with what `with_evidence` adds.
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
    parts = {split: samples_of(task, rows, classes, language) for split, rows in splits.items()}
    return Data(classes, parts["train"], parts["valid"], parts["test"])


def samples_of(task: str, rows: pl.DataFrame, classes: tuple[str, ...], language: str) -> list[Sample]:
    """The examples of a table.

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
        found = pointers(text, language, (row["start"], row["end"]), repair)
        return dataclasses.replace(
            sample, candidates=found.candidates, error=found.error, repairs=found.targets
        )
    if row["other_start"] is None:
        return sample
    outside = text[: row["start"]] + text[row["end"] : row["other_start"]] + text[row["other_end"] :]
    if outside.strip() or row["end"] >= row["other_start"]:
        raise InputError(
            f"task {task!r} is about two places of a text; lens 'finetune' takes whole texts and pairs of "
            "them, lens 'probe' takes places"
        )
    return dataclasses.replace(sample, second=row["other_start"])
