"""``sonde label``: a task's labels as a file, raw or as a balanced and split data set; needs no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.files import write_atomic
from sonde.corpora import (
    Intake,
    Item,
    Selection,
    check_corpus,
    read_files,
    read_items,
    select,
)
from sonde.corpora._spread import ItemChunk
from sonde.executors import kept_processes, reach
from sonde.experiments.drawing import DEFAULT_SIZE, pool_selection
from sonde.experiments.formats import FORMATS, FileFormat, Labelled
from sonde.experiments.formats.sonde import json_lines, label_rows
from sonde.experiments.labels import around_files
from sonde.languages import reasons_without
from sonde.tasks import (
    TASKS,
    CorpusTask,
    Question,
    RowTask,
    Spread,
    Task,
    ablations_of,
    build,
    label_items,
    languages_of,
    quirks_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelling:
    """What to write.

    Attributes:
        task: Public name of the task, or a path to a ``.py`` file.
        corpora: Corpora by name.
        selection: Unit and languages; without ``raw`` also limits and filters.
        raw: Every item in the corpus's order, nothing sampled, balanced, capped or left out; with a limit,
            the first items of each language.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        form: Public name of the file format.
        executor: Public name of the executor: where items are labelled. The labels are the same.
        address: Where a cluster answers; empty for what the environment names, or for this machine.
        workers: Processes at a time.
    """

    task: str
    corpora: tuple[str, ...]
    selection: Selection = field(default_factory=Selection)
    raw: bool = False
    mode: str = "corrected"
    quirks: frozenset[str] = frozenset()
    form: str = "sonde"
    executor: str = "local"
    address: str = ""
    workers: int = 1

    @property
    def spread(self) -> Spread:
        """How items are spread over the processes."""
        return Spread(executor=self.executor, workers=self.workers)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What was labelled, before it is written.

    Attributes:
        task: The task.
        form: The file format.
        entries: Inputs with their labels; of a task about a whole corpus none.
        collected: What a task about a whole corpus found.
    """

    task: Task | CorpusTask
    form: FileFormat
    entries: tuple[Labelled, ...] = ()
    collected: tuple[Mapping[str, Any], ...] = ()

    def __len__(self) -> int:
        return len(self.collected) + sum(len(entry.rows) for entry in self.entries)

    def rows(self) -> list[Mapping[str, Any]]:
        """The labels as sonde's own format writes them, one a line."""
        if isinstance(self.task, CorpusTask):
            return list(self.collected)
        return list(label_rows(self.task, self.entries))

    def write(self, output: Path) -> None:
        """Write one file in the format that was asked for."""
        task = self.task
        lines = (
            json_lines(self.collected)
            if isinstance(task, CorpusTask)
            else self.form.write(task, self.entries)
        )
        write_atomic(output, lines)


def label(wanted: Labelling) -> Labels:
    """Label corpora.

    Raises:
        UnknownNameError: A task, format, corpus or executor that does not exist.
        UsageError: The format does not hold labels of this task, or no cluster answers.
        InputError: A class has too few examples for a data set.
    """
    form, task = FORMATS.load(wanted.form), TASKS.load(wanted.task)
    if not isinstance(task, CorpusTask):
        _check(task, form, wanted)
    for corpus in wanted.corpora:
        check_corpus(corpus)
    reach(wanted.executor, wanted.address, wanted.workers)
    with kept_processes(wanted.executor, wanted.workers):
        if isinstance(task, CorpusTask):
            rows = (row for corpus in wanted.corpora for row in _collected(task, corpus, wanted))
            return Labels(task, form, collected=tuple(rows))
        entries = (entry for corpus in wanted.corpora for entry in _entries(task, corpus, wanted))
        return Labels(task, form, entries=tuple(entries))


def write_label_file(wanted: Labelling, output: Path) -> int:
    """Label corpora and write one file; raises as `label`.

    Returns:
        Number of labels.
    """
    labels = label(wanted)
    labels.write(output)
    return len(labels)


def _check(task: Task, form: FileFormat, wanted: Labelling) -> None:
    if form.tasks and task.name not in form.tasks:
        raise UsageError(
            f"format {wanted.form!r} holds labels of {', '.join(form.tasks)}, not of {task.name!r}; "
            "leave --format out for JSON lines"
        )
    known = quirks_of(task) | ablations_of(task)
    for quirk in wanted.quirks:
        if quirk not in known:
            raise UnknownNameError(f"quirk of task {task.name!r}", quirk, known)


def _collected(task: CorpusTask, corpus: str, wanted: Labelling) -> Iterable[Mapping[str, Any]]:
    if isinstance(task, RowTask):
        answers = wanted.spread.over(_rows, (wanted.task, wanted.mode), _items(corpus, wanted))
        return (row for _, row in answers)
    return task.collect(read_files(corpus, wanted.selection.languages, Intake()), mode=wanted.mode)


def _rows(part: ItemChunk[tuple[str, str], Item]) -> list[dict[str, Any]]:
    """The rows of some items; runs in any process."""
    name, mode = part.rule
    task = TASKS.load(name)
    assert isinstance(task, RowTask)
    return [task.row(item, mode=mode) for item in part.items]


def _entries(task: Task, corpus: str, wanted: Labelling) -> Iterable[Labelled]:
    if wanted.raw or FORMATS.load(wanted.form).whole or task.target == "relation":
        return _labelled(task, corpus, _items(corpus, wanted), wanted)
    return _data_sets(corpus, wanted)


def _items(corpus: str, wanted: Labelling) -> Iterable[Item]:
    """The items chosen; raw, every item in the corpus's order, or the first of each language."""
    selection = wanted.selection
    if not wanted.raw:
        return select(corpus, selection, spread=wanted.spread).items
    items = read_items(
        corpus, Intake(), unit=selection.unit, languages=selection.languages, spread=wanted.spread
    )
    return items if selection.limit is None else _first(items, selection.limit)


def _first(items: Iterable[Item], limit: int) -> Iterator[Item]:
    taken: Counter[str] = Counter()
    for item in items:
        taken[item.language] += 1
        if taken[item.language] <= limit:
            yield item


def _labelled(task: Task, corpus: str, items: Iterable[Item], wanted: Labelling) -> Iterator[Labelled]:
    able, known = languages_of(task), list[Item]()
    for item in items:
        if item.language not in able and not any(one.task.lower() == task.name for one in item.given):
            reason = reasons_without(item.language).get(task.name)
            raise UsageError(
                f"task {task.name!r} cannot label {item.language!r} ({item.path})"
                f"{f': {reason}' if reason else ''}; it knows {', '.join(able)}"
            )
        known.append(item)
    around = around_files(task, corpus, wanted.selection.languages, wanted.spread)
    asked = Question(wanted.task, 0, wanted.mode, wanted.quirks, around)
    for item, table in label_items(asked, known, wanted.spread):
        yield Labelled(item, tuple(table.iter_rows(named=True)))


def _data_sets(corpus: str, wanted: Labelling) -> Iterator[Labelled]:
    """The examples of one data set a language, in its order."""
    pool = select(corpus, pool_selection(wanted.selection), spread=wanted.spread).items
    for language in sorted({item.language for item in pool}):
        made = build(
            wanted.task,
            pool,
            size=wanted.selection.limit or DEFAULT_SIZE,
            seed=wanted.selection.seed,
            language=language,
            mode=wanted.mode,
            quirks=wanted.quirks,
            repositories=around_files(TASKS.load(wanted.task), corpus, (language,), wanted.spread),
            spread=wanted.spread,
        )
        items = {item.item_id: item for item in (*pool, *made.inputs)}
        for row in made.examples.iter_rows(named=True):
            yield Labelled(items[row["item_id"]], (row,), row["split"])
