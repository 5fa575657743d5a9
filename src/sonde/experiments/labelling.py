"""``sonde label``: a task's labels as a file, raw or as a balanced and split data set; needs no model."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Intake, Item, Selection, read_files, read_items, select, split
from sonde.experiments.formats import FORMATS, Form, Labelled
from sonde.tasks import TASKS, CorpusTask, Repository, Task, repositories


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling:
    """What to write.

    Attributes:
        task: Public name of the task, or a path to a ``.py`` file.
        corpora: Corpora by name.
        selection: Unit and languages; without ``raw`` also limits and filters.
        raw: Every item in the corpus's order, nothing sampled, balanced, capped or left out.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        form: Public name of the file format.
    """

    task: str
    corpora: tuple[str, ...]
    selection: Selection = field(default_factory=Selection)
    raw: bool = False
    mode: str = "corrected"
    quirks: frozenset[str] = frozenset()
    form: str = "sonde"


def write_label_file(wanted: Labelling, output: Path) -> int:
    """Label corpora and write one file.

    Returns:
        Number of labels.

    Raises:
        UnknownNameError: A task, format or corpus that does not exist.
        UsageError: The format does not hold labels of this task.
        InputError: Nothing carries a label, so there is no data set to balance.
    """
    form, task = FORMATS.load(wanted.form), TASKS.load(wanted.task)
    if isinstance(task, CorpusTask):
        rows = [row for corpus in wanted.corpora for row in _collected(task, corpus, wanted)]
        write_atomic(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return len(rows)
    _check(task, form, wanted.form)
    entries = [entry for corpus in wanted.corpora for entry in _entries(task, corpus, wanted)]
    write_atomic(output, form.write(task, entries))
    return sum(len(entry.rows) for entry in entries)


def _check(task: Task, form: Form, name: str) -> None:
    if form.tasks and task.name not in form.tasks:
        raise UsageError(
            f"format {name!r} holds labels of {', '.join(form.tasks)}, not of {task.name!r}; "
            "leave --format out for JSON lines"
        )


def _collected(task: CorpusTask, corpus: str, wanted: Labelling) -> Iterable[Mapping[str, Any]]:
    return task.collect(read_files(corpus, wanted.selection.languages, Intake()), mode=wanted.mode)


def _entries(task: Task, corpus: str, wanted: Labelling) -> Iterable[Labelled]:
    selection = wanted.selection
    if wanted.raw:
        items: Iterable[Item] = read_items(
            corpus, Intake(), unit=selection.unit, languages=selection.languages
        )
        return _labelled(task, corpus, items, wanted)
    return _balanced(list(_labelled(task, corpus, select(corpus, selection).items, wanted)), corpus, wanted)


def _labelled(task: Task, corpus: str, items: Iterable[Item], wanted: Labelling) -> Iterator[Labelled]:
    around: Mapping[str, Repository] = {}
    if task.needs_repository:
        around = repositories(read_files(corpus, wanted.selection.languages, Intake()))
    for item in items:
        table = task.label([item], around, mode=wanted.mode, quirks=wanted.quirks)[item.item_id]
        yield Labelled(item, tuple(table.iter_rows(named=True)))


def _balanced(entries: Sequence[Labelled], corpus: str, wanted: Labelling) -> list[Labelled]:
    """Equally many rows of every label within each split; splits never share a cluster."""
    seed = wanted.selection.seed
    sides = split([entry.item for entry in entries], seed=seed)
    pools: defaultdict[str, defaultdict[str, list[Labelled]]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        side = sides[entry.item.item_id]
        for row in entry.rows:
            if row["label"] is not None:
                pools[side][row["label"]].append(dataclasses.replace(entry, rows=(row,), split=side))
    labels = {label for pool in pools.values() for label in pool}
    if len(labels) < 2:
        found = ", ".join(sorted(labels)) or "none"
        raise InputError(f"corpus {corpus!r}: a balanced data set needs two labels, found {found}; try --raw")
    chosen: list[Labelled] = []
    for side in ("train", "valid", "test"):
        pool = pools[side]
        size = min(len(pool[label]) for label in labels)
        for label in sorted(labels):
            chosen += sorted(pool[label], key=lambda entry: unit_hash(seed, *_identity(entry)))[:size]
    return chosen


def _identity(entry: Labelled) -> tuple[str, int, str]:
    (row,) = entry.rows
    return entry.item.identifier or entry.item.item_id, row["start"], row["label"]
