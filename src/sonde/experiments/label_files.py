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
    labeller = _Labeller(wanted, names)
    with keep_processes(wanted.executor, wanted.workers):
        for name in names:
            labels = labeller.label(name)
            if not len(labels):
                corpora, languages = ", ".join(map(repr, wanted.corpora)), wanted.selection.languages
                within = f" in {' or '.join(languages)}" if languages else ""
                raise InputError(
                    f"nothing to label: corpus {corpora} holds no {wanted.selection.unit}{within} for task "
                    f"{labels.task.name!r}"
                )
            yield labels


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


class _Labeller:
    """Labels corpora for some tasks, and reads what all of them read once.

    Args:
        wanted: What to write of each; its task is not looked at.
        names: The tasks; where there is one, nothing of a corpus is kept.
    """

    def __init__(self, wanted: LabelOptions, names: Sequence[str]) -> None:
        self._wanted, self._names = wanted, names
        self._pools: dict[str, Sequence[Item]] = {}
        self._items: dict[str, Sequence[Item]] = {}
        self._told: set[str] = set()

    def label(self, name: str) -> Labels:
        """Label all corpora for a task."""
        wanted, task, form = self._wanted, TASKS.load(name), FORMATS.load(self._wanted.form)
        if isinstance(task, CorpusTask):
            collected = (self._collect_rows(name, task, corpus) for corpus in wanted.corpora)
            return Labels(task, form, collected=tuple(chain.from_iterable(collected)))
        whole = wanted.raw or form.whole or task.target == "relation"
        label = self._label_items if whole else self._draw_examples
        entries = (label(name, task, corpus) for corpus in wanted.corpora)
        return Labels(task, form, entries=tuple(chain.from_iterable(entries)))

    def _read_pool(self, corpus: str) -> Sequence[Item]:
        """The functions that data sets are drawn from."""
        if corpus not in self._pools:
            chosen = self._wanted.selection
            first = plan_first_items(self._names, size=chosen.limit or DEFAULT_SIZE, seed=chosen.seed)
            self._pools[corpus] = self._select(corpus, select_pool(chosen), first)
        return self._pools[corpus]

    def _read_items(self, corpus: str) -> Iterable[Item]:
        """The items chosen; raw, every item in the corpus's order, or the first of each language."""
        if corpus in self._items:
            return self._items[corpus]
        wanted = self._wanted
        items = self._read_raw(corpus) if wanted.raw else self._select(corpus, wanted.selection)
        if len(self._names) > 1:
            items = self._items[corpus] = tuple(items)
        return items

    def _read_raw(self, corpus: str) -> Iterator[Item]:
        selection, intake, spread = self._wanted.selection, SkipCounter(), self._wanted.spread
        taken: Counter[str] = Counter()
        for item in read_items(
            corpus, intake, unit=selection.unit, languages=selection.languages, spread=spread
        ):
            taken[item.language] += 1
            if selection.limit is None or taken[item.language] <= selection.limit:
                yield item
        self._note(describe_unused_files(corpus, intake))

    def _select(self, corpus: str, selection: Selection, first: FirstItems | None = None) -> Sequence[Item]:
        with self._wanted.progress.stage(f"reading {corpus}") as advance:
            chosen = select(corpus, selection, spread=self._wanted.spread, first=first, advance=advance)
        self._note(describe_selection(chosen), describe_unused_files(corpus, chosen.intake, chosen.left_out))
        return chosen.items

    def _note(self, *lines: str) -> None:
        """Say what is left out, each line once."""
        for line in filter(None, lines):
            if line not in self._told:
                self._told.add(line)
                self._wanted.progress.note(line)

    def _collect_rows(self, name: str, task: CorpusTask, corpus: str) -> Iterable[Mapping[str, Any]]:
        wanted = self._wanted
        if isinstance(task, RowTask):
            answers = wanted.spread.map(_label_chunk, (name, wanted.mode), self._read_items(corpus))
            return (row for _, row in answers)
        intake = SkipCounter()
        files = read_files(corpus, wanted.selection.languages, intake)
        if isinstance(task, AccountingTask):
            rows, told = task.collect_with_notes(files, mode=wanted.mode)
        else:
            rows, told = [*task.collect(files, mode=wanted.mode)], ()
        self._note(describe_unused_files(corpus, intake), *(f"{corpus}: {line}" for line in told))
        return rows

    def _label_items(self, name: str, task: Task, corpus: str) -> Iterator[LabelledItem]:
        wanted, able, known = self._wanted, get_languages(task), list[Item]()
        for item in self._read_items(corpus):
            if item.language not in able and not any(one.task.lower() == task.name for one in item.given):
                reason = get_unsupported_tasks(item.language).get(task.name)
                raise UsageError(
                    f"task {task.name!r} cannot label {item.language!r} ({item.path})"
                    f"{f': {reason}' if reason else ''}; it knows {', '.join(able)}"
                )
            known.append(item)
        unparsed = find_parse_errors(known, wanted.spread)
        self._note(describe_parse_errors(corpus, unparsed, len(known), wanted.selection.unit))
        around = read_repositories(task, corpus, wanted.selection.languages, wanted.spread)
        asked = LabelRequest(name, 0, wanted.mode, wanted.quirks, around)
        for item, table in label_items(asked, known, wanted.spread):
            yield LabelledItem(item, tuple(table.iter_rows(named=True)))

    def _draw_examples(self, name: str, task: Task, corpus: str) -> Iterator[LabelledItem]:
        """The examples of one data set a language, in its order."""
        wanted, pool = self._wanted, self._read_pool(corpus)
        for language in sorted({item.language for item in pool}):
            made = build(
                name,
                pool,
                size=wanted.selection.limit or DEFAULT_SIZE,
                seed=wanted.selection.seed,
                language=language,
                mode=wanted.mode,
                quirks=wanted.quirks,
                repositories=read_repositories(task, corpus, (language,), wanted.spread),
                spread=wanted.spread,
            )
            self._note(*_describe_omissions(corpus, language, TASKS.public(name), made.report))
            items = {item.item_id: item for item in (*pool, *made.inputs)}
            for row in made.examples.iter_rows(named=True):
                yield LabelledItem(items[row["item_id"]], (row,), row["split"])


def _label_chunk(part: ItemChunk[tuple[str, str], Item]) -> list[dict[str, Any]]:
    """The rows of some items; runs in any process."""
    name, mode = part.rule
    task = TASKS.load(name)
    assert isinstance(task, RowTask)
    return [task.row(item, mode=mode) for item in part.items]


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
