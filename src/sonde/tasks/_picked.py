"""What one function gives a data set, whichever others are read: its labelled places, thinned out.

A data set takes at most one place of each class from a function (for tokens: of each class and surface), so
no more is kept. Functions are asked by all tasks of a run together, so that each is parsed once, and in
several processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.corpora._spread import ItemChunk, Spread
from sonde.tasks._task import LABEL_SCHEMA, ItemLabels, Repository, Task

PICKED = ("item", "span", "pair")
"""Targets of tasks that label what the code already has."""


class Pick(NamedTuple):
    """A labelled place; see `sonde.tasks._examples.EXAMPLE_SCHEMA`."""

    start: int
    end: int
    label: str
    value: float | None
    other_start: int | None = None
    other_end: int | None = None


Picks = Mapping[str, tuple[Pick, ...]]
"""Item id to its places."""


@dataclass(frozen=True, slots=True)
class Question:
    """A task and how it is asked.

    Attributes:
        task: Name or path, as `sonde.tasks.TASKS` loads it.
        seed: Of the choice among places.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        repositories: What the task may know of the files around.
    """

    task: str
    seed: int
    mode: str
    quirks: frozenset[str]
    repositories: Mapping[str, Repository]


def places_of(
    task: Task, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: AbstractSet[str]
) -> list[Pick]:
    """All places of an item that a task labels."""
    if isinstance(task, ItemLabels) and task.schema is LABEL_SCHEMA:
        labelled = task.label_rows(item, repositories, mode=mode, quirks=quirks)
        return [Pick(start, end, label, value) for start, end, label, value in labelled if label is not None]
    table = task.label([item], repositories, mode=mode, quirks=quirks)[item.item_id]
    return [
        Pick(
            row["start"],
            row["end"],
            row["label"],
            row["value"],
            row.get("other_start"),
            row.get("other_end"),
        )
        for row in table.iter_rows(named=True)
        if row["label"] is not None
    ]


def picks_of(
    task: Task,
    item: Item,
    repositories: Mapping[str, Repository],
    *,
    seed: int,
    mode: str,
    quirks: AbstractSet[str],
) -> tuple[Pick, ...]:
    """The places of an item: one of each class, for tokens one of each class and surface, by hash."""
    rows = places_of(task, item, repositories, mode=mode, quirks=quirks)
    if task.target == "item":
        return tuple(rows)
    tokens = task.target == "span"
    alike: dict[tuple[str, str], list[Pick]] = {}
    for row in rows:
        place = row.label, item.text[row.start : row.end] if tokens else ""
        alike.setdefault(place, []).append(row)

    def rank(row: Pick) -> float:
        return unit_hash(seed, item.item_id, row.start, *(() if tokens else (row.other_start,)))

    return tuple(some[0] if len(some) == 1 else min(some, key=rank) for some in alike.values())


def pick_all(questions: Sequence[Question], items: Sequence[Item], spread: Spread) -> dict[str, Picks]:
    """The places of all items for several tasks at once.

    Returns:
        Task to its places.
    """
    found: dict[str, dict[str, tuple[Pick, ...]]] = {question.task: {} for question in questions}
    if questions:
        for item, answers in spread.over(_pick, tuple(questions), items, share=_share):
            for question, picks in zip(questions, answers, strict=True):
                found[question.task][item.item_id] = picks
    return {**found}


def _pick(part: ItemChunk[tuple[Question, ...], Item]) -> list[tuple[tuple[Pick, ...], ...]]:
    """The places of some items; runs in any process."""
    from sonde.tasks import TASKS

    tasks = [TASKS.load(question.task) for question in part.rule]
    return [
        tuple(
            picks_of(task, item, one.repositories, seed=one.seed, mode=one.mode, quirks=one.quirks)
            for task, one in zip(tasks, part.rule, strict=True)
        )
        for item in part.items
    ]


def _share(questions: tuple[Question, ...], items: Sequence[Item]) -> tuple[Question, ...]:
    return tuple(around(one, items) for one in questions)


def around(question: Question, items: Sequence[Item]) -> Question:
    """The question with the repositories of some items alone, and of imports those of their files."""
    paths: dict[str, set[str]] = {}
    for item in items:
        if item.repository in question.repositories:
            paths.setdefault(item.repository, set()).add(item.path)
    kept = {
        name: replace(known, imports={path: known.imports[path] for path in own & known.imports.keys()})
        for name, own in paths.items()
        for known in [question.repositories[name]]
    }
    return replace(question, repositories=kept)
