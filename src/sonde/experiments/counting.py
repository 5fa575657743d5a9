"""``sonde corpus stats``: how much a corpus holds, split by split, and how many examples tasks have.

The counts are those of CuBERT's Tables 1 and 6: every function of the corpus is asked, none is sampled,
capped or balanced, and one that is eligible gives its example as written and the one with a bug.

Kanade et al. 2020, section 3.4 and appendix B.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Intake, Item, SourceFile, read_files
from sonde.corpora._items import items_of
from sonde.corpora._splits import SPLITS
from sonde.executors import EXECUTORS
from sonde.languages import has_facet
from sonde.tasks import TASKS, Repository, Spread, Task, importing, needs_imports, repositories
from sonde.tasks._bugs import BugTask
from sonde.tasks._drawn import DatasetRequest
from sonde.tasks._pool import Pool, count_tokens, edits_of

BUG_TASKS = (
    *("variable_misuse", "wrong_operator", "swapped_operand", "function_docstring", "exception_type"),
    "misuse_repair",
)
"""The tasks of Table 1, in its order."""

UNSPLIT = "all"
"""What stands for the split of a corpus that has none."""

_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Counts:
    """What a corpus holds.

    Attributes:
        sizes: A row a language and split: ``files, functions, clusters, characters, tokens``.
        licences: A row a licence: ``files`` of each split.
        labels: A row a task and label: examples of each split; the label is empty in the row of a task's sum.
        refused: Tasks that have no examples in a language, and why.
        intake: What the source skipped.
    """

    sizes: pl.DataFrame
    licences: pl.DataFrame
    labels: pl.DataFrame
    refused: tuple[str, ...]
    intake: Intake


@dataclass(slots=True)
class _Seen:
    """One pass over the files, as far as it has come."""

    functions: list[Item] = field(default_factory=list[Item])
    sums: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    clusters: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    licences: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def count_corpus(
    corpus: str,
    *,
    languages: tuple[str, ...] = (),
    tasks: Sequence[str] = (),
    seed: int = 0,
    workers: int = 1,
) -> Counts:
    """Count files, functions, code tokens and licences of a corpus, and the labels of tasks.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names; empty means all that the corpus holds.
        tasks: Tasks whose labels are counted; `BUG_TASKS` for those of Table 1.
        seed: Of the bugs that are put in.
        workers: Processes at a time; the counts are the same.

    Raises:
        UsageError: A task that labels no items.
        InputError: The corpus cannot be read, or holds no file.
    """
    wanted = [_labelling(name) for name in tasks]
    intake, seen = Intake(), _Seen()
    for files in _chunks(read_files(corpus, languages, intake)):
        _take(seen, files, workers)
    if not seen.sums:
        raise InputError(f"corpus {corpus!r} holds no file of {', '.join(languages) or 'any language'}")
    splits = _ordered({split for _, split in seen.sums})
    refused: list[str] = []
    rows: list[dict[str, str | int]] = []
    for task in wanted:
        try:
            found = _labels(task, corpus, seen.functions, seed, workers)
        except UsageError as error:
            refused.append(str(error))
        else:
            rows += _label_rows(task.name, found, splits)
    return Counts(
        sizes=pl.DataFrame(_size_rows(seen, splits)),
        licences=pl.DataFrame(_licence_rows(seen, splits)),
        labels=pl.DataFrame(rows),
        refused=tuple(refused),
        intake=intake,
    )


def _labelling(name: str) -> Task:
    task = TASKS.load(name)
    if task.target in ("corpus", "relation"):
        raise UsageError(
            f"task {name!r} has no labels of items to count; `sonde label {name}` lists what it finds"
        )
    return task


def _chunks(files: Iterator[SourceFile]) -> Iterator[list[SourceFile]]:
    """Some thousands of files at a time: enough for every process, few enough for any memory."""
    while chunk := list(islice(files, 100 * _CHUNK)):
        yield chunk


def _take(seen: _Seen, files: Sequence[SourceFile], workers: int) -> None:
    jobs = [(begin, tuple(files[begin : begin + _CHUNK])) for begin in range(0, len(files), _CHUNK)]
    found = {job[0]: made for job, made in EXECUTORS.load("local").map(_measure, jobs, workers=workers)}
    for begin, job in jobs:
        for file, (functions, tokens) in zip(job, found[begin], strict=True):
            split = file.split or UNSPLIT
            place = file.language, split
            seen.functions += functions
            seen.clusters[place].add(file.cluster)
            seen.licences[file.licence][split] += 1
            seen.sums[place].update(
                files=1, functions=len(functions), characters=len(file.text), tokens=tokens
            )


def _measure(job: tuple[int, tuple[SourceFile, ...]]) -> list[tuple[list[Item], int]]:
    """Functions and number of code tokens of some files; runs in any process."""
    return [
        (list(items_of(file, "function", Intake())), count_tokens(file.text, edits_of(file.language)))
        for file in job[1]
    ]


def _labels(
    task: Task, corpus: str, functions: Sequence[Item], seed: int, workers: int
) -> Counter[tuple[str, str]]:
    """Examples by split and label.

    Raises:
        UsageError: A language of the corpus has none for this task.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for language in sorted({item.language for item in functions}):
        items = [item for item in functions if item.language == language]
        asked = DatasetRequest(task, 0, seed, language, "corrected", frozenset(), {})
        found = _bugs(asked, items, workers) if isinstance(task, BugTask) else _given(task, corpus, items)
        counts.update((item.split or UNSPLIT, label) for item, label in found)
    return counts


def _bugs(asked: DatasetRequest, items: Sequence[Item], workers: int) -> Iterator[tuple[Item, str]]:
    """Both examples of each eligible function."""
    task, edits = asked.task, edits_of(asked.language)
    assert isinstance(task, BugTask)
    if not has_facet(asked.language, task.facet):
        raise UsageError(f"task {task.name!r}: no bugs are put into {asked.language} code")
    parsed = tuple(item for item in items if edits is None or edits.parses(item.text))
    sides = {item.cluster: item.split or UNSPLIT for item in parsed}
    for item, variants in task.drawn(Pool(parsed, {}, {}), sides, asked, Spread(workers=workers)):
        for variant in variants:
            yield item, variant.label


def _given(task: Task, corpus: str, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """The labels that the code has, of whole functions or of spans in them."""
    tables = task.label(items, _around(task, corpus, items[0].language))
    for item in items:
        for label in tables[item.item_id]["label"].drop_nulls():
            yield item, label


def _around(task: Task, corpus: str, language: str) -> Mapping[str, Repository]:
    if task.needs_repository:
        return repositories(read_files(corpus, (language,), Intake()))
    return importing(read_files(corpus, (language,), Intake())) if needs_imports(task) else {}


def _label_rows(
    task: str, found: Counter[tuple[str, str]], splits: Sequence[str]
) -> Iterator[dict[str, str | int]]:
    """The sum of a task, then its labels, the most frequent first."""
    by_label: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (split, label), count in found.items():
        by_label[label][split] += count
    total = sum(by_label.values(), Counter[str]())
    yield {"task": task, "label": "", **{split: total[split] for split in splits}}
    for label in sorted(by_label, key=lambda one: (-by_label[one].total(), one)):
        yield {"task": task, "label": label, **{split: by_label[label][split] for split in splits}}


def _size_rows(seen: _Seen, splits: Sequence[str]) -> Iterator[dict[str, str | int]]:
    for language in sorted({language for language, _ in seen.sums}):
        for split in splits:
            sums = seen.sums.get((language, split), Counter[str]())
            yield {
                "language": language,
                "split": split,
                "files": sums["files"],
                "functions": sums["functions"],
                "clusters": len(seen.clusters.get((language, split), ())),
                "characters": sums["characters"],
                "tokens": sums["tokens"],
            }


def _licence_rows(seen: _Seen, splits: Sequence[str]) -> Iterator[dict[str, str | int]]:
    for licence in sorted(seen.licences, key=lambda one: (-seen.licences[one].total(), one)):
        counts = seen.licences[licence]
        yield {"licence": licence or "unknown", **{split: counts[split] for split in splits}}


def _ordered(splits: Iterable[str]) -> list[str]:
    """Splits as they are read: train before valid before test."""
    return sorted(splits, key=(*SPLITS, UNSPLIT).index)
