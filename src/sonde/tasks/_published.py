"""Tasks with the labels that a paper published where they differ: found by name, known to no task.

What a paper published of a task is a task as well, offered by the entry point of the task's name (sonde's own
lie in `sonde.papers`); it stands in for the task in paper mode, or where one of its quirks is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TypeVar

from sonde.base.outside import check_published, published

GROUP = "sonde.tasks.published"

T = TypeVar("T")


def published_quirks(name: str) -> Mapping[str, str]:
    """How the published labels of a task differ, by the quirk's name."""
    found = published(GROUP, name)
    return {} if found is None else found.quirks


def as_asked(task: T, mode: str, quirks: Set[str]) -> T:
    """The task itself, or as published where the mode or a quirk asks for that.

    Raises:
        InputError: It is asked as published, and nothing is registered.
    """
    if mode != "paper" and not quirks:
        return task
    check_published(GROUP)
    name: str = task.name  # pyright: ignore[reportAttributeAccessIssue]
    found = published(GROUP, name)
    if found is None or not (mode == "paper" or quirks & found.quirks.keys()):
        return task
    return found
