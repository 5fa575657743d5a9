"""Labels of a run's items, made once before any model is loaded and kept beside the items."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Advance
from sonde.corpora import Item, SkipCounter, cached_definitions, cached_imports, read_files
from sonde.experiments.plan import Group
from sonde.languages import get_language_version
from sonde.results.schema import scan_files
from sonde.store.cache import PartStore
from sonde.store.run_folder import label_path
from sonde.tasks import (
    LabelRequest,
    ParallelMap,
    Repository,
    Task,
    index_imports,
    label_items,
    needs_imports,
    repositories,
)
from sonde.tasks.engine.task import TASKS


def label_key(task_name: str, group: Group, mode: str, quirks: tuple[str, ...]) -> str:
    """Fingerprint of whatever can change the labels of one item, whichever other items are labelled."""
    task = TASKS.load(task_name)
    version = task.version + TASKS.source_hash(task_name)
    around = group.corpus_hash if task.needs_repository or needs_imports(task) else ""
    rules = get_language_version(group.language)
    return fingerprint("labels", task_name, version, rules, around, mode, quirks)


def read_labels(store: PartStore, task_name: str, group: Group, of: str = "") -> pl.DataFrame:
    """The label rows of all inputs of a group; ``of`` as in `sonde.store.run_folder.label_path`."""
    return scan_files([store.path(label_path(task_name, group.prefix, of))]).collect()


class LabelTables(Mapping[str, pl.DataFrame]):
    """The label rows of all inputs of a group, task by task, each read when it is asked for.

    Args:
        store: Where the labels are kept.
        tasks: The tasks, by public name.
        group: The items.
        of: As in `sonde.store.run_folder.label_path`.
    """

    def __init__(self, store: PartStore, tasks: Sequence[str], group: Group, of: str = "") -> None:
        self._store, self._group, self._of = store, group, of
        self._tables: dict[str, pl.DataFrame | None] = dict.fromkeys(tasks)

    def __getitem__(self, task: str) -> pl.DataFrame:
        table = self._tables[task]
        if table is None:
            table = self._tables[task] = read_labels(self._store, task, self._group, self._of)
        return table

    def __contains__(self, task: object) -> bool:
        return task in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def write_labels(
    store: PartStore,
    name: str,
    group: Group,
    mode: str,
    quirks: tuple[str, ...],
    advance: Advance,
    spread: ParallelMap,
    of: str = "",
) -> str:
    """Label a group's items for a task, unless that is done.

    Args:
        store: Where the labels are kept.
        name: The task.
        group: The items.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        advance: Is called when it is done.
        spread: Processes that label; any number gives the same.
        of: As in `sonde.store.run_folder.label_path`.

    Returns:
        The rule of the labels, see `label_key`.
    """
    rule = label_key(name, group, mode, quirks)
    relative = label_path(TASKS.public(name), group.prefix, of)
    key = fingerprint(rule, [item.item_id for item in group.items])
    if store.notes(relative, key) is None:
        around = find_repositories(TASKS.load(name), group, spread)
        asked = LabelRequest(name, 0, mode, frozenset(quirks), around)
        tables = label_items(asked, group.items, spread)
        named = (frame.with_columns(pl.lit(item.item_id).alias("item_id")) for item, frame in tables)
        store.put_tables(relative, key, named, {})
    advance()
    return rule


def find_repositories(
    task: Task, group: Group, spread: ParallelMap, items: Sequence[Item] | None = None
) -> dict[str, Repository]:
    """What a task may know of the files around a group's items, gathered once for all tasks that ask.

    Args:
        task: The task.
        group: The items.
        spread: Processes that read files; any number gives the same.
        items: Those of the items that are read; None for all. Only their files are read for imports.
    """
    if task.needs_repository:
        return _cached_definitions(group.corpus, group.language, group.corpus_hash, spread)
    if needs_imports(task):
        paths = frozenset(item.path for item in (group.items if items is None else items))
        return _cached_imports(group.corpus, group.language, group.corpus_hash, paths, spread)
    return {}


def clear_repositories() -> None:
    """Let go of what is known of the files around items, once all of a run are labelled."""
    _cached_definitions.cache_clear()
    _cached_imports.cache_clear()


@functools.lru_cache(maxsize=1)
def _cached_definitions(
    corpus: str, language: str, corpus_hash: str, spread: ParallelMap
) -> dict[str, Repository]:
    return read_definitions(corpus, (language,), spread)


@functools.lru_cache(maxsize=1)
def _cached_imports(
    corpus: str, language: str, corpus_hash: str, paths: frozenset[str], spread: ParallelMap
) -> dict[str, Repository]:
    return read_imports(corpus, (language,), spread, paths)


def read_repositories(
    task: Task, corpus: str, languages: tuple[str, ...], spread: ParallelMap
) -> dict[str, Repository]:
    """What a task may know of all files of a corpus in some languages."""
    if task.needs_repository:
        return read_definitions(corpus, languages, spread)
    return read_imports(corpus, languages, spread) if needs_imports(task) else {}


def read_definitions(corpus: str, languages: tuple[str, ...], spread: ParallelMap) -> dict[str, Repository]:
    """What the files of a corpus define."""
    with cached_definitions(corpus) as known:
        return repositories(read_files(corpus, languages, SkipCounter()), spread, known=known)


def read_imports(
    corpus: str, languages: tuple[str, ...], spread: ParallelMap, paths: Set[str] | None = None
) -> dict[str, Repository]:
    """What the files of a corpus import, or those of some paths."""
    files = read_files(corpus, languages, SkipCounter())
    wanted = (file for file in files if paths is None or file.path in paths)
    with cached_imports(corpus) as known:
        return index_imports(wanted, spread=spread, known=known)
