"""``sonde label``: the labels of tasks as files, raw or as balanced and split data sets; needs no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import write_atomic
from sonde.base.progress import NullProgress, Progress
from sonde.corpora import (
    FirstItems,
    Item,
    Selection,
    SkipCounter,
    check_corpora,
    read_files,
    read_items,
    select,
)
from sonde.corpora.engine.parallel import ItemChunk
from sonde.executors import connect_executor, keep_processes
from sonde.experiments.datasets import (
    DEFAULT_SIZE,
    DROPPED,
    describe_dropped_items,
    read_repositories,
    select_pool,
)
from sonde.experiments.formats import FORMATS, FileFormat, LabelledItem
from sonde.experiments.formats.sonde import build_label_rows, to_json_lines
from sonde.experiments.inputs import (
    describe_parse_errors,
    describe_selection,
    describe_unused_files,
    find_parse_errors,
)
from sonde.languages import get_unsupported_tasks
from sonde.tasks import (
    AccountingTask,
    CorpusTask,
    LabelRequest,
    ParallelMap,
    RowTask,
    Task,
    build,
    get_ablations,
    get_languages,
    get_quirks,
    label_items,
    plan_first_items,
)
from sonde.tasks.engine.task import TASKS

TASK_HERE = "{task}"
"""Stands in the name of a file for that of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
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
        progress: Is told how far reading has come, and what is left out.
        told: Lines on what is left out that were said already.
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
    progress: Progress = field(default_factory=NullProgress)
    told: set[str] = field(default_factory=set[str], compare=False, repr=False)

    @property
    def spread(self) -> ParallelMap:
        """How items are spread over the processes."""
        return ParallelMap(executor=self.executor, workers=self.workers)


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
    entries: tuple[LabelledItem, ...] = ()
    collected: tuple[Mapping[str, Any], ...] = ()

    def __len__(self) -> int:
        return len(self.collected) + sum(len(entry.rows) for entry in self.entries)

    def rows(self) -> list[Mapping[str, Any]]:
        """The labels as sonde's own format writes them, one a line."""
        if isinstance(self.task, CorpusTask):
            return list(self.collected)
        return list(build_label_rows(self.task, self.entries))

    def write(self, output: Path) -> None:
        """Write one file in the format that was asked for."""
        task = self.task
        lines = (
            to_json_lines(self.collected)
            if isinstance(task, CorpusTask)
            else self.form.write(task, self.entries)
        )
        write_atomic(output, lines)


def label_corpora(wanted: LabelOptions) -> Labels:
    """Label corpora.

    Raises:
        UnknownNameError: A task, format, corpus or executor that does not exist.
        UsageError: The format does not hold labels of this task, or no cluster answers.
        InputError: A class has too few examples for a data set, or there is nothing to label.
    """
    (labels,) = label_tasks(wanted, (wanted.task,))
    return labels


def label_tasks(wanted: LabelOptions, names: Sequence[str]) -> Iterator[Labels]:
    """Label corpora for several tasks, which are read once; raises as `label_corpora`.

    Args:
        wanted: What to write of each; its task is not looked at.
        names: Public names of the tasks, or paths to ``.py`` files.
    """
    form, tasks = FORMATS.load(wanted.form), [TASKS.load(name) for name in names]
    for task in tasks:
        if not isinstance(task, CorpusTask):
            _check_options(task, form, wanted)
    check_corpora(wanted.corpora)
    connect_executor(wanted.executor, wanted.address, wanted.workers)
    read = _CorpusReader(wanted, names)
    with keep_processes(wanted.executor, wanted.workers):
        for name, task in zip(names, tasks, strict=True):
            asked = replace(wanted, task=name)
            if isinstance(task, CorpusTask):
                rows = (row for corpus in wanted.corpora for row in _collect_rows(task, corpus, asked, read))
                labels = Labels(task, form, collected=tuple(rows))
            else:
                entries = (
                    one for corpus in wanted.corpora for one in _label_entries(task, corpus, asked, read)
                )
                labels = Labels(task, form, entries=tuple(entries))
            if not len(labels):
                raise InputError(_no_labels_message(task.name, asked))
            yield labels


def _no_labels_message(task: str, wanted: LabelOptions) -> str:
    corpora = ", ".join(map(repr, wanted.corpora))
    languages = f" in {' or '.join(wanted.selection.languages)}" if wanted.selection.languages else ""
    return f"nothing to label: corpus {corpora} holds no {wanted.selection.unit}{languages} for task {task!r}"


def write_label_files(wanted: LabelOptions, names: Sequence[str], output: str) -> list[dict[str, Any]]:
    """Label corpora and write a file a task; raises as `label_corpora`.

    Args:
        wanted: As for `label_tasks`; so are the names.
        names: The tasks.
        output: The file; of several tasks its name holds `TASK_HERE`, for which each name stands.

    Returns:
        ``rows`` and ``file`` of each: how many labels it holds.
    """
    public = [TASKS.public(name) for name in names]
    files = [Path(output.replace(TASK_HERE, name)) for name in public]
    if len(set(files)) < len(names):
        raise UsageError(
            f"{len(names)} tasks need as many files: write {TASK_HERE} into the name, as in -o "
            f"labels/{TASK_HERE}.jsonl, and name each task once"
        )
    found: list[dict[str, Any]] = []
    for file, labels in zip(files, label_tasks(wanted, names), strict=True):
        labels.write(file)
        found.append({"rows": len(labels), "file": file})
    return found


class _CorpusReader:
    """What of the corpora is read for all tasks.

    Args:
        wanted: What is asked for.
        names: The tasks; where there is one, nothing needs to be kept.
    """

    def __init__(self, wanted: LabelOptions, names: Sequence[str]) -> None:
        self._wanted, self._names = wanted, names
        self._pools: dict[str, Sequence[Item]] = {}
        self._items: dict[str, Sequence[Item]] = {}

    def pool(self, corpus: str) -> Sequence[Item]:
        """The functions that data sets are drawn from."""
        if corpus not in self._pools:
            chosen = self._wanted.selection
            first = plan_first_items(self._names, size=chosen.limit or DEFAULT_SIZE, seed=chosen.seed)
            self._pools[corpus] = _select_items(corpus, self._wanted, select_pool(chosen), first)
        return self._pools[corpus]

    def items(self, corpus: str) -> Iterable[Item]:
        """The items chosen; raw, every item in the corpus's order, or the first of each language."""
        if len(self._names) == 1:
            return _select_or_read(corpus, self._wanted)
        if corpus not in self._items:
            self._items[corpus] = tuple(_select_or_read(corpus, self._wanted))
        return self._items[corpus]


def _check_options(task: Task, form: FileFormat, wanted: LabelOptions) -> None:
    if form.tasks and task.name not in form.tasks:
        raise UsageError(
            f"format {wanted.form!r} holds labels of {', '.join(form.tasks)}, not of {task.name!r}; "
            "leave --format out for JSON lines"
        )
    known = get_quirks(task) | get_ablations(task)
    for quirk in wanted.quirks:
        if quirk not in known:
            raise UnknownNameError(f"quirk of task {task.name!r}", quirk, known)


def _collect_rows(
    task: CorpusTask, corpus: str, wanted: LabelOptions, read: _CorpusReader
) -> Iterable[Mapping[str, Any]]:
    if isinstance(task, RowTask):
        answers = wanted.spread.map(_label_chunk, (wanted.task, wanted.mode), read.items(corpus))
        return (row for _, row in answers)
    intake = SkipCounter()
    files = read_files(corpus, wanted.selection.languages, intake)
    if isinstance(task, AccountingTask):
        rows, told = task.collect_with_notes(files, mode=wanted.mode)
    else:
        rows, told = [*task.collect(files, mode=wanted.mode)], ()
    _note(wanted, describe_unused_files(corpus, intake), *(f"{corpus}: {line}" for line in told))
    return rows


def _label_chunk(part: ItemChunk[tuple[str, str], Item]) -> list[dict[str, Any]]:
    """The rows of some items; runs in any process."""
    name, mode = part.rule
    task = TASKS.load(name)
    assert isinstance(task, RowTask)
    return [task.row(item, mode=mode) for item in part.items]


def _label_entries(
    task: Task, corpus: str, wanted: LabelOptions, read: _CorpusReader
) -> Iterable[LabelledItem]:
    if wanted.raw or FORMATS.load(wanted.form).whole or task.target == "relation":
        return _label_items(task, corpus, read.items(corpus), wanted)
    return _dataset_entries(corpus, wanted, read.pool(corpus))


def _select_or_read(corpus: str, wanted: LabelOptions) -> Iterable[Item]:
    selection = wanted.selection
    if not wanted.raw:
        return _select_items(corpus, wanted, selection)
    return _raw_items(corpus, wanted)


def _raw_items(corpus: str, wanted: LabelOptions) -> Iterator[Item]:
    selection, intake = wanted.selection, SkipCounter()
    items = read_items(
        corpus, intake, unit=selection.unit, languages=selection.languages, parallel=wanted.spread
    )
    yield from items if selection.limit is None else _take_first(items, selection.limit)
    _note(wanted, describe_unused_files(corpus, intake))


def _note(wanted: LabelOptions, *lines: str) -> None:
    for line in filter(None, lines):
        if line not in wanted.told:
            wanted.told.add(line)
            wanted.progress.note(line)


def _select_items(
    corpus: str, wanted: LabelOptions, selection: Selection, first: FirstItems | None = None
) -> Sequence[Item]:
    with wanted.progress.stage(f"reading {corpus}") as advance:
        chosen = select(corpus, selection, parallel=wanted.spread, first=first, advance=advance)
    _note(wanted, describe_selection(chosen), describe_unused_files(corpus, chosen.intake, chosen.left_out))
    return chosen.items


def _take_first(items: Iterable[Item], limit: int) -> Iterator[Item]:
    taken: Counter[str] = Counter()
    for item in items:
        taken[item.language] += 1
        if taken[item.language] <= limit:
            yield item


def _label_items(
    task: Task, corpus: str, items: Iterable[Item], wanted: LabelOptions
) -> Iterator[LabelledItem]:
    able, known = get_languages(task), list[Item]()
    for item in items:
        if item.language not in able and not any(one.task.lower() == task.name for one in item.given):
            reason = get_unsupported_tasks(item.language).get(task.name)
            raise UsageError(
                f"task {task.name!r} cannot label {item.language!r} ({item.path})"
                f"{f': {reason}' if reason else ''}; it knows {', '.join(able)}"
            )
        known.append(item)
    unparsed = find_parse_errors(known, wanted.spread)
    _note(wanted, describe_parse_errors(corpus, unparsed, len(known), wanted.selection.unit))
    around = read_repositories(task, corpus, wanted.selection.languages, wanted.spread)
    asked = LabelRequest(wanted.task, 0, wanted.mode, wanted.quirks, around)
    for item, table in label_items(asked, known, wanted.spread):
        yield LabelledItem(item, tuple(table.iter_rows(named=True)))


def _dataset_entries(corpus: str, wanted: LabelOptions, pool: Sequence[Item]) -> Iterator[LabelledItem]:
    """The examples of one data set a language, in its order."""
    for language in sorted({item.language for item in pool}):
        made = build(
            wanted.task,
            pool,
            size=wanted.selection.limit or DEFAULT_SIZE,
            seed=wanted.selection.seed,
            language=language,
            mode=wanted.mode,
            quirks=wanted.quirks,
            repositories=read_repositories(TASKS.load(wanted.task), corpus, (language,), wanted.spread),
            spread=wanted.spread,
        )
        _note(wanted, *_describe_omissions(corpus, language, TASKS.public(wanted.task), made.report))
        items = {item.item_id: item for item in (*pool, *made.inputs)}
        for row in made.examples.iter_rows(named=True):
            yield LabelledItem(items[row["item_id"]], (row,), row["split"])


def _describe_omissions(corpus: str, language: str, task: str, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a data set left out of the functions that it was drawn from."""
    dropped = {reason: count for reason, count in report.get("dropped", {}).items() if count}
    if unparsed := dropped.pop(DROPPED, 0):
        yield describe_dropped_items(corpus, language, unparsed)
    if dropped:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        yield f"{task} in {language}: drawn from {report['pool']:,} functions; left out: {listed}"
    if classes := report.get("classes left out"):
        yield f"{task} in {language}: too few examples of {', '.join(classes)}, which are left out"
