"""Labels of a run's items, made once before any model is loaded and kept beside the items."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Advance
from sonde.corpora import Intake, Item, kept_definitions, kept_imports, read_files
from sonde.experiments.plan import Group
from sonde.languages import version_of
from sonde.results.schema import scan_files
from sonde.store.cache import PartStore
from sonde.store.run_folder import label_path
from sonde.tasks import (
    Question,
    Repository,
    Spread,
    Task,
    importing,
    label_items,
    needs_imports,
    repositories,
)
from sonde.tasks.engine.task import TASKS


def label_rule(task_name: str, group: Group, mode: str, quirks: tuple[str, ...]) -> str:
    """Fingerprint of whatever can change the labels of one item, whichever other items are labelled."""
    task = TASKS.load(task_name)
    version = task.version + TASKS.source_hash(task_name)
    around = group.corpus_hash if task.needs_repository or needs_imports(task) else ""
    rules = version_of(group.language)
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
    spread: Spread,
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
        The rule of the labels, see `label_rule`.
    """
    rule = label_rule(name, group, mode, quirks)
    relative = label_path(TASKS.public(name), group.prefix, of)
    key = fingerprint(rule, [item.item_id for item in group.items])
    if store.notes(relative, key) is None:
        around = around_of(TASKS.load(name), group, spread)
        asked = Question(name, 0, mode, frozenset(quirks), around)
        tables = label_items(asked, group.items, spread)
        named = (frame.with_columns(pl.lit(item.item_id).alias("item_id")) for item, frame in tables)
        store.put_together(relative, key, named, {})
    advance()
    return rule


def around_of(
    task: Task, group: Group, spread: Spread, items: Sequence[Item] | None = None
) -> dict[str, Repository]:
    """What a task may know of the files around a group's items, gathered once for all tasks that ask.

    Args:
        task: The task.
        group: The items.
        spread: Processes that read files; any number gives the same.
        items: Those of the items that are read; None for all. Only their files are read for imports.
    """
    if task.needs_repository:
        return _repositories(group.corpus, group.language, group.corpus_hash, spread)
    if needs_imports(task):
        paths = frozenset(item.path for item in (group.items if items is None else items))
        return _imports(group.corpus, group.language, group.corpus_hash, paths, spread)
    return {}


def forget_files_around() -> None:
    """Let go of what is known of the files around items, once all of a run are labelled."""
    _repositories.cache_clear()
    _imports.cache_clear()


@functools.lru_cache(maxsize=1)
def _repositories(corpus: str, language: str, corpus_hash: str, spread: Spread) -> dict[str, Repository]:
    return definitions_around(corpus, (language,), spread)


@functools.lru_cache(maxsize=1)
def _imports(
    corpus: str, language: str, corpus_hash: str, paths: frozenset[str], spread: Spread
) -> dict[str, Repository]:
    return imports_around(corpus, (language,), spread, paths)


def around_files(
    task: Task, corpus: str, languages: tuple[str, ...], spread: Spread
) -> dict[str, Repository]:
    """What a task may know of all files of a corpus in some languages."""
    if task.needs_repository:
        return definitions_around(corpus, languages, spread)
    return imports_around(corpus, languages, spread) if needs_imports(task) else {}


def definitions_around(corpus: str, languages: tuple[str, ...], spread: Spread) -> dict[str, Repository]:
    """What the files of a corpus define."""
    with kept_definitions(corpus) as known:
        return repositories(read_files(corpus, languages, Intake()), spread, known=known)


def imports_around(
    corpus: str, languages: tuple[str, ...], spread: Spread, paths: Set[str] | None = None
) -> dict[str, Repository]:
    """What the files of a corpus import, or those of some paths."""
    files = read_files(corpus, languages, Intake())
    wanted = (file for file in files if paths is None or file.path in paths)
    with kept_imports(corpus) as known:
        return importing(wanted, spread=spread, known=known)
