"""Labels of tasks from outside sonde, checked where they are made: errors name the function and the line.

A task of sonde's own is not checked: its tests do that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.errors import InputError, SondeError
from sonde.base.formatting import bracket
from sonde.base.registry import find_extension_line, is_from_outside, locate_method
from sonde.corpora import Item
from sonde.tasks.engine.task import LABEL_SCHEMA, Repository, Task

_MAX_LABELS = 12
"""Labels that a message lists."""


def label_with_checks(
    task: Task, items: Sequence[Item], repositories: Mapping[str, Repository]
) -> dict[str, pl.DataFrame]:
    """Label items; see `sonde.tasks.Task.label`.

    Raises:
        InputError: The task is not sonde's own, and fails on an item, returns no table of labels for it, a
            span outside its text, or a label that it does not declare.
    """
    if not is_from_outside(task):
        return task.label(items, repositories)
    try:
        tables: Any = task.label(items, repositories)
    except SondeError:
        raise
    except Exception as error:
        raise _locate_error(task, items, repositories, error) from error
    for item in items:
        if fault := _find_fault(task, item, tables):
            raise InputError(f"{_describe(task, item)}: {fault}{bracket(locate_method(task, 'label'))}")
    return tables


def _locate_error(
    task: Task, items: Sequence[Item], repositories: Mapping[str, Repository], error: Exception
) -> InputError:
    """Build the error of the first item on which the task fails."""
    subject = f"task {task.name!r}"
    for item in items if len(items) > 1 else ():
        try:
            task.label([item], repositories)
        except Exception as item_error:
            error, subject = item_error, _describe(task, item)
            break
    else:
        subject = _describe(task, items[0]) if len(items) == 1 else subject
    line = bracket(find_extension_line(error, type(task).__module__.partition(".")[0]))
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return InputError(f"{subject}: {reason}{line}")


def _describe(task: Task, item: Item) -> str:
    line = f", line {item.line}" if item.line else ""
    return f"task {task.name!r} on {' '.join(filter(None, (item.path, item.name)))}{line}"


def _find_fault(task: Task, item: Item, tables: Any) -> str:
    """Return the fault of the labels of an item; empty if there is none."""
    if not isinstance(tables, Mapping):
        return f"`label` returned {type(tables).__name__}, not a dict of tables by item id"
    table: Any = tables.get(item.item_id)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if table is None:
        return "`label` returned no table for it; return an empty table if nothing has a label"
    if not isinstance(table, pl.DataFrame):
        return f"`label` returned {type(table).__name__} for it, not a polars DataFrame"
    if missing := [name for name in LABEL_SCHEMA if name not in table.columns]:
        return f"its table lacks {', '.join(missing)} (see sonde.tasks.LABEL_SCHEMA)"
    for index, (start, end, label) in enumerate(table.select("start", "end", "label").iter_rows(), 1):
        is_span = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(item.text)
        if task.target != "mutation" and not is_span:
            return f"row {index}: span {start} to {end} lies outside its {len(item.text):,} characters"
        if label is not None and task.labels and label not in task.labels:
            declared = ", ".join(map(repr, task.labels[:_MAX_LABELS]))
            return f"row {index}: label {label!r} is not declared in `labels` ({declared})"
    return ""
