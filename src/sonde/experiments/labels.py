"""Labels of a run's items, made once before any model is loaded and kept beside the items."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.corpora import Intake, read_files
from sonde.experiments.plan import Group
from sonde.languages import LANGUAGES
from sonde.store.parts import PartStore
from sonde.tasks import TASKS, Repository, repositories


def label_key(task_name: str, group: Group) -> str:
    """Key of a task's labels of a group."""
    task = TASKS.load(task_name)
    around = group.corpus_hash if task.needs_repository else ""
    ids = [item.item_id for item in group.items]
    return fingerprint("labels", task_name, task.version, LANGUAGES.load(group.language).version, around, ids)


def label_path(task_name: str, group_prefix: str) -> str:
    """Where a group's labels lie inside the folder of the run."""
    return f"labels/task={task_name}/{group_prefix}.parquet"


def write_labels(store: PartStore, task_name: str, group: Group) -> str:
    """Label a group's items unless that is done already.

    Returns:
        The key of the label table.
    """
    key = label_key(task_name, group)
    relative = label_path(task_name, group.prefix)
    if store.notes(relative, key) is not None:
        return key
    task = TASKS.load(task_name)
    around: Mapping[str, Repository] = {}
    if task.needs_repository:
        around = repositories(read_files(group.corpus, (group.language,), Intake()))
    tables = task.label(group.items, around)
    frames = [frame.with_columns(pl.lit(item).alias("item_id")) for item, frame in tables.items()]
    store.put(relative, key, pl.concat(frames), {})
    return key
