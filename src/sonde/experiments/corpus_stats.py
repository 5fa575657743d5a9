"""``sonde corpus stats``: how much a corpus holds, split by split, and how many examples tasks have.

The counts are those of CuBERT's Tables 1 and 6: every function of the corpus is asked, none is sampled,
capped or balanced, and one that is eligible gives its example as written and the one with a bug.

Kanade et al. 2020, section 3.4 and appendix B.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, SkipCounter, SourceFile, check_corpus, read_files
from sonde.corpora.engine.parallel import ONE, ItemChunk
from sonde.corpora.engine.read import extract_items
from sonde.corpora.engine.staging import SPLITS
from sonde.executors import connect_executor, keep_processes
from sonde.experiments.datasets import read_repositories
from sonde.languages import has_facet
from sonde.tasks import LabelRequest, ParallelMap, Task, label_items
from sonde.tasks.engine.bugs import BugTask
from sonde.tasks.engine.sampling import DatasetRequest, Pool, count_tokens, get_edits
from sonde.tasks.engine.task import TASKS

BUG_TASKS = (
    *("variable_misuse", "wrong_operator", "swapped_operand", "function_docstring", "exception_type"),
    "misuse_repair",
)
"""The tasks of Table 1, in its order."""


UNSPLIT = "all"
"""What stands for the split of a corpus that has none."""


@dataclass(frozen=True, slots=True)
class CorpusStats:
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
    intake: SkipCounter


@dataclass(slots=True)
class _Tally:
    """One pass over the files, as far as it has come."""

    functions: list[Item] = field(default_factory=list[Item])
    sums: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    clusters: defaultdict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    licences: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def take(self, file: SourceFile, functions: Sequence[Item], tokens: int) -> None:
        """Count a file, its functions and its code tokens."""
        split = file.split or UNSPLIT
        place = file.language, split
        self.functions += functions
        self.clusters[place].add(file.cluster)
        self.licences[file.licence][split] += 1
        self.sums[place].update(files=1, functions=len(functions), characters=len(file.text), tokens=tokens)


def count_corpus(
    corpus: str,
    *,
    languages: tuple[str, ...] = (),
    tasks: Sequence[str] = (),
    seed: int = 0,
    spread: ParallelMap = ONE,
    address: str = "",
) -> CorpusStats:
    """Count files, functions, code tokens and licences of a corpus, and the labels of tasks.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names; empty means all that the corpus holds.
        tasks: Tasks whose labels are counted; `BUG_TASKS` for those of Table 1.
        seed: Of the bugs that are put in.
        spread: Processes that read; the counts are the same.
        address: Where a cluster answers; empty for what the environment names, or for this machine.

    Raises:
        UsageError: A task that labels no items.
        InputError: The corpus cannot be read, or holds no file.
    """
    wanted = {name: _load_task(name) for name in tasks}
    check_corpus(corpus)
    connect_executor(spread.executor, address, spread.workers)
    with keep_processes(spread.executor, spread.workers):
        return _count_files(corpus, languages, wanted, seed, spread)


def _count_files(
    corpus: str, languages: tuple[str, ...], wanted: Mapping[str, Task], seed: int, spread: ParallelMap
) -> CorpusStats:
    intake, seen = SkipCounter(), _Tally()
    files = read_files(corpus, languages, intake)
    for file, (functions, tokens) in spread.of_files.map(_measure, None, files):
        seen.take(file, functions, tokens)
    if not seen.sums:
        raise InputError(f"corpus {corpus!r} holds no file of {', '.join(languages) or 'any language'}")
    splits = _sort_splits({split for _, split in seen.sums})
    refused: list[str] = []
    rows: list[dict[str, str | int]] = []
    for name, task in wanted.items():
        try:
            found = _count_labels(name, corpus, seen.functions, seed, spread)
        except UsageError as error:
            refused.append(str(error))
        else:
            rows += _label_rows(task.name, found, splits)
    return CorpusStats(
        sizes=pl.DataFrame(_size_rows(seen, splits)),
        licences=pl.DataFrame(_licence_rows(seen, splits)),
        labels=pl.DataFrame(rows),
        refused=tuple(refused),
        intake=intake,
    )


def _load_task(name: str) -> Task:
    task = TASKS.load(name)
    if task.target in ("corpus", "relation"):
        raise UsageError(
            f"task {name!r} has no labels of items to count; `sonde label {name}` lists what it finds"
        )
    return task


def _measure(part: ItemChunk[None, SourceFile]) -> list[tuple[list[Item], int]]:
    """Functions and number of code tokens of some files; runs in any process."""
    return [
        (
            list(extract_items(file, "function", SkipCounter())),
            count_tokens(file.text, get_edits(file.language)),
        )
        for file in part.items
    ]


def _count_labels(
    name: str, corpus: str, functions: Sequence[Item], seed: int, spread: ParallelMap
) -> Counter[tuple[str, str]]:
    """Examples by split and label.

    Raises:
        UsageError: A language of the corpus has none for this task.
    """
    task = TASKS.load(name)
    counts: Counter[tuple[str, str]] = Counter()
    for language in sorted({item.language for item in functions}):
        items = [item for item in functions if item.language == language]
        asked = DatasetRequest(task, 0, seed, language, "corrected", frozenset(), {})
        if isinstance(task, BugTask):
            found = _bug_examples(asked, items, spread)
        else:
            found = _provided_labels(name, corpus, items, spread)
        counts.update((item.split or UNSPLIT, label) for item, label in found)
    return counts


def _bug_examples(
    asked: DatasetRequest, items: Sequence[Item], spread: ParallelMap
) -> Iterator[tuple[Item, str]]:
    """Both examples of each eligible function."""
    task, edits = asked.task, get_edits(asked.language)
    assert isinstance(task, BugTask)
    if not has_facet(asked.language, task.facet):
        raise UsageError(f"task {task.name!r}: no bugs are put into {asked.language} code")
    parsed = tuple(item for item in items if edits is None or edits.parses(item.text))
    sides = {item.cluster: item.split or UNSPLIT for item in parsed}
    for item, variants in task.draw_examples(Pool(parsed, {}, {}), sides, asked, spread):
        for variant in variants:
            yield item, variant.label


def _provided_labels(
    name: str, corpus: str, items: Sequence[Item], spread: ParallelMap
) -> Iterator[tuple[Item, str]]:
    """The labels that the code has, of whole functions or of spans in them."""
    around = read_repositories(TASKS.load(name), corpus, (items[0].language,), spread)
    asked = LabelRequest(name, 0, "corrected", frozenset(), around)
    for item, table in label_items(asked, items, spread):
        for label in table["label"].drop_nulls():
            yield item, label


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


def _size_rows(seen: _Tally, splits: Sequence[str]) -> Iterator[dict[str, str | int]]:
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


def _licence_rows(seen: _Tally, splits: Sequence[str]) -> Iterator[dict[str, str | int]]:
    for licence in sorted(seen.licences, key=lambda one: (-seen.licences[one].total(), one)):
        counts = seen.licences[licence]
        yield {"licence": licence or "unknown", **{split: counts[split] for split in splits}}


def _sort_splits(splits: Iterable[str]) -> list[str]:
    """Splits as they are read: train before valid before test."""
    return sorted(splits, key=(*SPLITS, UNSPLIT).index)
