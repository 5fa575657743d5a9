"""``sonde label``: the labels of tasks as files, raw or as balanced and split data sets; needs no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
)
from sonde.corpora.engine.parallel import ItemChunk
from sonde.executors import connect_executor, keep_processes
from sonde.experiments.arguments import build_selection
from sonde.experiments.datasets import (
    DEFAULT_SIZE,
    PARSE_ERROR_REASON,
    describe_dropped_items,
    read_repositories,
    select_pool,
)
from sonde.experiments.formats import FORMATS, FileFormat, LabelledItem
from sonde.experiments.formats.sonde import build_label_rows, to_json_lines
from sonde.experiments.inputs import (
    describe_parse_errors,
    describe_unused_files,
    find_parse_errors,
    select_with_notes,
)
from sonde.languages import get_unsupported_tasks
from sonde.tasks import (
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
    """Options of labelling.

    Attributes:
        task: Public name of the task, or a path to a ``.py`` file.
        corpora: Corpora by name.
        selection: Unit and languages; without ``raw`` also limits and filters.
        raw: Every item in the corpus's order, nothing sampled, balanced, capped or left out; with a limit,
            the first items of each language.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks in addition to the mode's preset.
        form: Public name of the file format.
        executor: Public name of the executor: where items are labelled. The labels are the same.
        address: Where a cluster answers; empty for what the environment names, or for this machine.
        workers: Processes at a time.
        progress: Is told how far reading has come, and what is left out.
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

    @classmethod
    def from_arguments(cls, task: str, arguments: Mapping[str, Any]) -> LabelOptions:
        """Build the options from the arguments that a caller gave, those of the selection among them."""
        names = ("raw", "mode", "executor", "address", "workers", "progress")
        return cls(
            task=task,
            corpora=tuple(arguments["corpora"]),
            selection=build_selection(arguments),
            quirks=frozenset(arguments.get("quirks", ())),
            form=arguments.get("format", "sonde"),
            **{name: arguments[name] for name in names if name in arguments},
        )

    @property
    def spread(self) -> ParallelMap:
        """Return how items are spread over processes."""
        return ParallelMap(executor=self.executor, workers=self.workers)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The labels of a task, before they are written.

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
        """Return the labels as sonde's own format writes them, one per line."""
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


def label_corpora(options: LabelOptions) -> Labels:
    """Label corpora.

    Raises:
        UnknownNameError: A task, format, corpus or executor that does not exist.
        UsageError: The format does not hold labels of this task, or no cluster answers.
        InputError: A class has too few examples for a data set, or there is nothing to label.
    """
    (labels,) = label_tasks(options, (options.task,))
    return labels


def label_tasks(options: LabelOptions, names: Sequence[str]) -> Iterator[Labels]:
    """Label corpora for several tasks, which are read once; raises as `label_corpora`.

    Args:
        options: What to write of each; its task is not looked at.
        names: Public names of the tasks, or paths to ``.py`` files.
    """
    form, tasks = FORMATS.load(options.form), [TASKS.load(name) for name in names]
    for task in tasks:
        if not isinstance(task, CorpusTask):
            _check_options(task, form, options)
    check_corpora(options.corpora)
    connect_executor(options.executor, options.address, options.workers)
    labeller = _Labeller(options, names)
    with keep_processes(options.executor, options.workers):
        for name in names:
            labels = labeller.label(name)
            if not len(labels):
                corpora, languages = ", ".join(map(repr, options.corpora)), options.selection.languages
                language_clause = f" in {' or '.join(languages)}" if languages else ""
                raise InputError(
                    f"nothing to label: corpus {corpora} has no "
                    f"{options.selection.unit}{language_clause} for task {labels.task.name!r}"
                )
            yield labels


def write_label_files(options: LabelOptions, names: Sequence[str], output: str) -> list[dict[str, Any]]:
    """Label corpora and write a file per task; raises as `label_corpora`.

    Args:
        options: As for `label_tasks`; so are the names.
        names: The tasks.
        output: The file; of several tasks its name holds `TASK_HERE`, for which each name stands.

    Returns:
        ``rows`` and ``file`` of each: how many labels it holds.
    """
    public = [TASKS.public(name) for name in names]
    files = [Path(output.replace(TASK_HERE, name)) for name in public]
    if len(set(files)) < len(names):
        raise UsageError(
            f"{len(names)} tasks need a file each: write {TASK_HERE} into the name, as in -o "
            f"labels/{TASK_HERE}.jsonl, and name each task once"
        )
    results: list[dict[str, Any]] = []
    for file, labels in zip(files, label_tasks(options, names), strict=True):
        labels.write(file)
        results.append({"rows": len(labels), "file": file})
    return results


def _check_options(task: Task, form: FileFormat, options: LabelOptions) -> None:
    if form.tasks and task.name not in form.tasks:
        raise UsageError(
            f"format {options.form!r} is for labels of {', '.join(form.tasks)}, not of "
            f"{task.name!r}; leave --format out for JSON lines"
        )
    known_quirks = get_quirks(task) | get_ablations(task)
    for quirk in options.quirks:
        if quirk not in known_quirks:
            raise UnknownNameError(f"quirk of task {task.name!r}", quirk, known_quirks)


class _Labeller:
    """Labels corpora for some tasks, and reads what all of them read once.

    Args:
        wanted: What to write of each; its task is not looked at.
        names: The tasks; where there is one, nothing of a corpus is kept.
    """

    def __init__(self, options: LabelOptions, names: Sequence[str]) -> None:
        self._wanted, self._names = options, names
        self._pools: dict[str, Sequence[Item]] = {}
        self._items: dict[str, Sequence[Item]] = {}
        self._told: set[str] = set()

    def label(self, name: str) -> Labels:
        """Label all corpora for a task."""
        options, task, form = self._wanted, TASKS.load(name), FORMATS.load(self._wanted.form)
        if isinstance(task, CorpusTask):
            row_groups = (self._collect_rows(name, task, corpus) for corpus in options.corpora)
            return Labels(task, form, collected=tuple(chain.from_iterable(row_groups)))
        labels_all_items = options.raw or form.whole or task.target == "relation"
        label = self._label_items if labels_all_items else self._draw_examples
        entries = (label(name, task, corpus) for corpus in options.corpora)
        return Labels(task, form, entries=tuple(chain.from_iterable(entries)))

    def _read_pool(self, corpus: str) -> Sequence[Item]:
        """Read the functions that data sets are drawn from."""
        if corpus not in self._pools:
            selection = self._wanted.selection
            first = plan_first_items(self._names, size=selection.limit or DEFAULT_SIZE, seed=selection.seed)
            self._pools[corpus] = self._select(corpus, select_pool(selection), first)
        return self._pools[corpus]

    def _read_items(self, corpus: str) -> Iterable[Item]:
        """Read the selected items; raw, every item in the corpus's order, or the first of each language."""
        if corpus in self._items:
            return self._items[corpus]
        options = self._wanted
        items = self._read_raw(corpus) if options.raw else self._select(corpus, options.selection)
        if len(self._names) > 1:
            items = self._items[corpus] = tuple(items)
        return items

    def _read_raw(self, corpus: str) -> Iterator[Item]:
        selection, parallel = self._wanted.selection, self._wanted.spread
        intake = SkipCounter(tell=self._note)
        counts: Counter[str] = Counter()
        for item in read_items(
            corpus, intake, unit=selection.unit, languages=selection.languages, parallel=parallel
        ):
            counts[item.language] += 1
            if selection.limit is None or counts[item.language] <= selection.limit:
                yield item
        self._note(describe_unused_files(corpus, intake))

    def _select(self, corpus: str, selection: Selection, first: FirstItems | None = None) -> Sequence[Item]:
        options = self._wanted
        return select_with_notes(corpus, selection, options.progress, options.spread, first=first).items

    def _note(self, *lines: str) -> None:
        """Say what is left out, each line once."""
        for line in filter(None, lines):
            if line not in self._told:
                self._told.add(line)
                self._wanted.progress.note(line)

    def _collect_rows(self, name: str, task: CorpusTask, corpus: str) -> Iterable[Mapping[str, Any]]:
        options = self._wanted
        if isinstance(task, RowTask):
            answers = options.spread.map(_label_chunk, name, self._read_items(corpus))
            return (row for _, row in answers)
        intake = SkipCounter()
        files = read_files(corpus, options.selection.languages, intake)
        # A task may say what it could not place.
        collect_with_notes = getattr(task, "collect_with_notes", None)
        rows, lines = collect_with_notes(files) if collect_with_notes else ([*task.collect(files)], ())
        self._note(describe_unused_files(corpus, intake), *(f"{corpus}: {line}" for line in lines))
        return rows

    def _label_items(self, name: str, task: Task, corpus: str) -> Iterator[LabelledItem]:
        options, supported_languages, items = self._wanted, get_languages(task), list[Item]()
        for item in self._read_items(corpus):
            if item.language not in supported_languages and not any(
                provided_label.task.lower() == task.name for provided_label in item.given
            ):
                reason = get_unsupported_tasks(item.language).get(task.name)
                raise UsageError(
                    f"task {task.name!r} cannot label {item.language!r} ({item.path})"
                    f"{f': {reason}' if reason else ''}; it knows {', '.join(supported_languages)}"
                )
            items.append(item)
        parse_errors = find_parse_errors(items, options.spread)
        self._note(describe_parse_errors(corpus, parse_errors, len(items), options.selection.unit))
        repositories = read_repositories(task, corpus, options.selection.languages, options.spread)
        request = LabelRequest(name, 0, options.mode, options.quirks, repositories)
        for item, table in label_items(request, items, options.spread):
            yield LabelledItem(item, tuple(table.iter_rows(named=True)))

    def _draw_examples(self, name: str, task: Task, corpus: str) -> Iterator[LabelledItem]:
        """Yield the examples of one data set per language, in its order."""
        options, pool = self._wanted, self._read_pool(corpus)
        for language in sorted({item.language for item in pool}):
            dataset = build(
                name,
                pool,
                size=options.selection.limit or DEFAULT_SIZE,
                seed=options.selection.seed,
                language=language,
                mode=options.mode,
                quirks=options.quirks,
                repositories=read_repositories(task, corpus, (language,), options.spread),
                parallel=options.spread,
            )
            self._note(*_describe_omissions(corpus, language, TASKS.public(name), dataset.report))
            items = {item.item_id: item for item in (*pool, *dataset.inputs)}
            for row in dataset.examples.iter_rows(named=True):
                yield LabelledItem(items[row["item_id"]], (row,), row["split"])


def _label_chunk(part: ItemChunk[str, Item]) -> list[dict[str, Any]]:
    """Return the rows of some items; runs in any process."""
    task = TASKS.load(part.rule)
    assert isinstance(task, RowTask)
    return [task.row(item) for item in part.items]


def _describe_omissions(corpus: str, language: str, task: str, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a data set left out of the functions that it was drawn from."""
    omitted_counts = {reason: count for reason, count in report.get("dropped", {}).items() if count}
    if parse_errors := omitted_counts.pop(PARSE_ERROR_REASON, 0):
        yield describe_dropped_items(corpus, language, parse_errors)
    if omitted_counts:
        listing = ", ".join(f"{count:,} {reason}" for reason, count in omitted_counts.items())
        yield f"{task} in {language}: drawn from {report['pool']:,} functions; left out: {listing}"
    if classes := report.get("classes left out"):
        yield f"{task} in {language}: left out {', '.join(classes)}, which have too few examples"
