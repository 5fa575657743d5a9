"""Labels of a run's items, made once before any model is loaded and kept beside the items."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.corpora import Intake, read_files
from sonde.experiments._progress import Advance
from sonde.experiments.plan import Group
from sonde.languages import LANGUAGES
from sonde.store.parts import PartStore
from sonde.tasks import TASKS, Repository, repositories


def label_rule(task_name: str, group: Group, mode: str) -> str:
    """Fingerprint of whatever can change the labels of one item, whichever other items are labelled."""
    task = TASKS.load(task_name)
    around = group.corpus_hash if task.needs_repository else ""
    rules = LANGUAGES.load(group.language).version
    return fingerprint("labels", task_name, task.version, rules, around, mode)


def label_path(task_name: str, group_prefix: str) -> str:
    """Where a group's labels lie inside the folder of the run."""
    return f"labels/task={task_name}/{group_prefix}.parquet"


def read_labels(store: PartStore, task_name: str, group: Group) -> pl.DataFrame:
    """The label rows of all inputs of a group."""
    return pl.read_parquet(store.path(label_path(task_name, group.prefix)))


def write_labels(
    store: PartStore, tasks: Iterable[str], group: Group, mode: str, advance: Advance
) -> dict[str, str]:
    """Label a group's items for several tasks, those excepted that are labelled already.

    The definitions of the files around are gathered once, and only if a task that is not done needs them.

    Returns:
        The rule of each task's labels, see `label_rule`.
    """
    rules = {name: label_rule(name, group, mode) for name in tasks}
    ids = [item.item_id for item in group.items]
    around: dict[str, Repository] | None = None
    for name, rule in rules.items():
        relative, key = label_path(name, group.prefix), fingerprint(rule, ids)
        if store.notes(relative, key) is None:
            task = TASKS.load(name)
            if task.needs_repository and around is None:
                around = repositories(read_files(group.corpus, (group.language,), Intake()))
            tables = task.label(group.items, around or {}, mode=mode)
            frames = [frame.with_columns(pl.lit(item).alias("item_id")) for item, frame in tables.items()]
            store.put(relative, key, pl.concat(frames), {})
        advance()
    return rules
