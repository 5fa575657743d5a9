"""Tasks with the labels that a paper published where they differ: found by name, known to no task.

What a paper published of a task is a task as well, offered by the entry point of the task's name (sonde's
own lie in `sonde.papers`); it stands in for the task in paper mode, or where one of its quirks is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set
from typing import Any, TypeVar

from sonde.base.errors import InputError
from sonde.base.outside import offered

GROUP = "sonde.tasks.published"

T = TypeVar("T")


@functools.cache
def published(name: str) -> Any:
    """The task as a paper published it; None where its labels are not known to differ.

    Raises:
        InputError: Nothing is registered at all: sonde was not installed, or before it had this.
    """
    known = offered(GROUP)
    if not known:
        raise InputError("what papers published is not registered; install sonde again (pip install -e .)")
    return known[name].load() if name in known else None


def published_quirks(name: str) -> Mapping[str, str]:
    """How the published labels of a task differ, by the quirk's name."""
    found = published(name)
    return {} if found is None else found.quirks


def as_asked(task: T, mode: str, quirks: Set[str]) -> T:
    """The task itself, or as published where the mode or a quirk asks for that."""
    if mode != "paper" and not quirks:
        return task
    name: str = task.name  # pyright: ignore[reportAttributeAccessIssue]
    found = published(name)
    if found is None or not (mode == "paper" or quirks & found.quirks.keys()):
        return task
    return found
