"""``sonde corpus stats``: how much a corpus holds, split by split, and how many examples tasks have.

The counts are those of CuBERT's Tables 1 and 6: every function of the corpus is asked, none is sampled,
capped or balanced, and one that is eligible gives its example as written and the one with a bug.

Kanade et al. 2020, section 3.4 and appendix B.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, SkipCounter, SourceFile, check_corpus, read_files
from sonde.corpora.engine.manifest import SPLITS
from sonde.corpora.engine.parallel import ONE, ItemChunk
from sonde.corpora.engine.read import extract_items
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
    """Counts of a corpus.

    Attributes:
        sizes: A row per language and split: ``files, functions, clusters, characters, tokens``.
        licences: A row per licence: ``files`` of each split.
        labels: A row per task and label: examples of each split; without a label, the sum of a task.
        refused: Tasks that have no examples in a language, and why.
        intake: What the source skipped.
    """

    sizes: pl.DataFrame
    licences: pl.DataFrame
    labels: pl.DataFrame
    refused: tuple[str, ...]
    intake: SkipCounter


_FILE = {
    "language": pl.String,
    "split": pl.String,
    "cluster": pl.String,
    "licence": pl.String,
    "functions": pl.Int64,
    "characters": pl.Int64,
    "tokens": pl.Int64,
}
"""Columns of the files that were counted."""


def count_corpus(
    corpus: str,
    *,
    languages: tuple[str, ...] = (),
    tasks: Sequence[str] = (),
    seed: int = 0,
    parallel: ParallelMap = ONE,
    address: str = "",
) -> CorpusStats:
    """Count files, functions, code tokens and licences of a corpus, and the labels of tasks.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names; empty means all that the corpus holds.
        tasks: Tasks whose labels are counted; `BUG_TASKS` for those of Table 1.
        seed: Of the bugs that are put in.
        parallel: Processes that read; the counts are the same.
        address: Where a cluster answers; empty for what the environment names, or for this machine.

    Raises:
        UsageError: A task that labels no items.
        InputError: The corpus cannot be read, or holds no file.
    """
    loaded_tasks = {name: _load_task(name) for name in tasks}
    check_corpus(corpus)
    connect_executor(parallel.executor, address, parallel.workers)
    with keep_processes(parallel.executor, parallel.workers):
        return _count_files(corpus, languages, loaded_tasks, seed, parallel)


def _count_files(
    corpus: str, languages: tuple[str, ...], tasks: Mapping[str, Task], seed: int, parallel: ParallelMap
) -> CorpusStats:
    intake = SkipCounter()
    rows: list[tuple[str | int, ...]] = []
    items: list[Item] = []
    for file, (functions, tokens) in parallel.of_files.map(
        _measure, None, read_files(corpus, languages, intake)
    ):
        items += functions
        names = file.language, file.split or UNSPLIT, file.cluster, file.licence
        rows.append((*names, len(functions), len(file.text), tokens))
    if not rows:
        raise InputError(f"corpus {corpus!r} has no file of {', '.join(languages) or 'any language'}")
    files = pl.DataFrame(rows, schema=_FILE, orient="row")
    # Train before valid before test.
    splits: list[str] = sorted(files["split"].unique(), key=(*SPLITS, UNSPLIT).index)
    refusals: list[str] = []
    labels: list[pl.DataFrame] = []
    for name, task in tasks.items():
        try:
            label_counts = _count_labels(name, corpus, items, seed, parallel)
        except UsageError as error:
            refusals.append(str(error))
        else:
            counts = [(split, label, count) for (split, label), count in label_counts.items()]
            table = pl.DataFrame(
                counts, schema={"split": pl.String, "label": pl.String, "count": pl.Int64}, orient="row"
            )
            by_label = _count_by_split(table, "label", splits)
            total = by_label.select(pl.lit("").alias("label"), pl.col(*splits).sum())
            labels.append(pl.concat([total, by_label]).select(pl.lit(task.name).alias("task"), pl.all()))
    return CorpusStats(
        sizes=_measure_sizes(files, splits),
        licences=_count_by_split(files.with_columns(count=1), "licence", splits).with_columns(
            pl.col("licence").replace("", "unknown")
        ),
        labels=pl.concat(labels) if labels else pl.DataFrame(),
        refused=tuple(refusals),
        intake=intake,
    )


def _measure_sizes(files: pl.DataFrame, splits: Sequence[str]) -> pl.DataFrame:
    """Return one row per language and split, including those without files."""
    keys = ["language", "split"]
    sizes = files.group_by(keys).agg(
        pl.len().alias("files"),
        pl.col("functions").sum(),
        pl.col("cluster").n_unique().alias("clusters"),
        pl.col("characters", "tokens").sum(),
    )
    languages = sorted(files["language"].unique())
    cells = pl.DataFrame(list(product(languages, splits)), schema=keys, orient="row")
    table = cells.join(sizes, on=keys, how="left", maintain_order="left")
    return table.with_columns(pl.exclude(keys).fill_null(0).cast(pl.Int64))


def _count_by_split(table: pl.DataFrame, name: str, splits: Sequence[str]) -> pl.DataFrame:
    """Sum ``count`` in each split for each value of a column, the most frequent first."""
    by_split = (pl.col("count").filter(pl.col("split") == split).sum().alias(split) for split in splits)
    sums = table.group_by(name).agg(pl.col("count").sum().alias("_total"), *by_split)
    return sums.sort("_total", name, descending=[True, False]).select(name, pl.col(*splits).cast(pl.Int64))


def _load_task(name: str) -> Task:
    task = TASKS.load(name)
    if task.target in ("corpus", "relation"):
        raise UsageError(
            f"task {name!r} has no labels of items to count; `sonde label {name}` lists its labels"
        )
    return task


def _measure(part: ItemChunk[None, SourceFile]) -> list[tuple[list[Item], int]]:
    """Return the functions and the number of code tokens of some files; runs in any process."""
    return [
        (
            list(extract_items(file, "function", SkipCounter())),
            count_tokens(file.text, get_edits(file.language)),
        )
        for file in part.items
    ]


def _count_labels(
    name: str, corpus: str, functions: Sequence[Item], seed: int, parallel: ParallelMap
) -> Counter[tuple[str, str]]:
    """Count examples by split and label.

    Raises:
        UsageError: A language of the corpus has none for this task.
    """
    task = TASKS.load(name)
    counts: Counter[tuple[str, str]] = Counter()
    for language in sorted({item.language for item in functions}):
        items = [item for item in functions if item.language == language]
        request = DatasetRequest(task, 0, seed, language)
        if isinstance(task, BugTask):
            examples = _bug_examples(request, items, parallel)
        else:
            examples = _provided_labels(name, corpus, items, parallel)
        counts.update((item.split or UNSPLIT, label) for item, label in examples)
    return counts


def _bug_examples(
    request: DatasetRequest, items: Sequence[Item], parallel: ParallelMap
) -> Iterator[tuple[Item, str]]:
    """Yield both examples of each eligible function."""
    task, edits = request.task, get_edits(request.language)
    assert isinstance(task, BugTask)
    if not has_facet(request.language, task.facet):
        raise UsageError(f"task {task.name!r}: it puts no bugs into {request.language} code")
    valid_items = tuple(item for item in items if edits is None or edits.parses(item.text))
    sides = {item.cluster: item.split or UNSPLIT for item in valid_items}
    for item, variants in task.draw_examples(Pool(valid_items, {}, {}), sides, request, parallel):
        for variant in variants:
            yield item, variant.label


def _provided_labels(
    name: str, corpus: str, items: Sequence[Item], parallel: ParallelMap
) -> Iterator[tuple[Item, str]]:
    """Yield the labels of existing code, of whole functions or of spans."""
    repositories = read_repositories(TASKS.load(name), corpus, (items[0].language,), parallel)
    request = LabelRequest(name, 0, "corrected", frozenset(), repositories)
    for item, table in label_items(request, items, parallel):
        for label in table["label"].drop_nulls():
            yield item, label
