"""``sonde label``: a task's labels as a file, raw or as a balanced and split data set; needs no model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora import Intake, Item, Selection, read_files, read_items, select, split
from sonde.tasks import TASKS, Repository, Task, repositories

Row = dict[str, Any]

FORMATS = ("sonde",)
"""Formats of published data sets come with the lenses that they belong to."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """An item with the rows of its labels."""

    item: Item
    rows: tuple[Row, ...]


def check_format(name: str) -> None:
    """Refuse a file format that no lens of this version brings.

    Raises:
        UnknownNameError: The format does not exist.
    """
    if name not in FORMATS:
        raise UnknownNameError("label format", name, FORMATS)


def write_label_file(
    task_name: str, corpora: Sequence[str], selection: Selection, output: Path, *, raw: bool
) -> int:
    """Label corpora and write JSON lines.

    Args:
        task_name: Public name of the task, or a path to a ``.py`` file.
        corpora: Corpora by name.
        selection: Unit and languages; without ``raw`` also limits and filters.
        output: The file.
        raw: Every item in the corpus's order, nothing sampled, balanced, capped or left out.

    Returns:
        Number of rows.

    Raises:
        InputError: Nothing carries a label, so there is no data set to balance.
    """
    task = TASKS.load(task_name)
    rows: list[Row] = []
    for corpus in corpora:
        if raw:
            items: Iterable[Item] = read_items(
                corpus, Intake(), unit=selection.unit, languages=selection.languages
            )
            rows += [row for entry in _labelled(task, corpus, items, selection) for row in entry.rows]
        else:
            chosen = select(corpus, selection).items
            rows += _balanced(list(_labelled(task, corpus, chosen, selection)), corpus, selection.seed)
    write_atomic(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(rows)


def _labelled(task: Task, corpus: str, items: Iterable[Item], selection: Selection) -> Iterator[Labelled]:
    around: Mapping[str, Repository] = {}
    if task.needs_repository:
        around = repositories(read_files(corpus, selection.languages, Intake()))
    for item in items:
        table = task.label([item], around)[item.item_id]
        yield Labelled(item, tuple(_row(task, item, row) for row in table.iter_rows(named=True)))


def _row(task: Task, item: Item, row: Mapping[str, Any]) -> Row:
    identity = item.identifier or item.item_id
    if task.target == "item":
        return {"id": identity, "label": row["label"], "value": row["value"]}
    span = fingerprint("span", item.item_id, task.name, task.version, row["start"], row["end"])
    extra = {name: row[name] for name in row if name not in ("start", "end", "label", "value")}
    return {
        "id": identity,
        "span": span,
        "start": row["start"],
        "end": row["end"],
        "label": row["label"],
        "value": row["value"],
        **extra,
    }


def _balanced(entries: Sequence[Labelled], corpus: str, seed: int) -> list[Row]:
    """Equally many rows of every label within each split; splits never share a cluster."""
    sides = split([entry.item for entry in entries], seed=seed)
    pools: defaultdict[str, defaultdict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        side = sides[entry.item.item_id]
        for row in entry.rows:
            if row["label"] is not None:
                pools[side][row["label"]].append({**row, "split": side, "text": entry.item.text})
    labels = {label for pool in pools.values() for label in pool}
    if len(labels) < 2:
        found = ", ".join(sorted(labels)) or "none"
        raise InputError(f"corpus {corpus!r}: a balanced data set needs two labels, found {found}; try --raw")
    rows: list[Row] = []
    for side in ("train", "valid", "test"):
        pool = pools[side]
        size = min(len(pool[label]) for label in labels)
        for label in sorted(labels):
            order = sorted(
                pool[label], key=lambda row: unit_hash(seed, row["id"], row.get("start", 0), row["label"])
            )
            rows += order[:size]
    return rows
