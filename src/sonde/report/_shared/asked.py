"""What a task is called on the page, and what it asks."""

from __future__ import annotations

from functools import cache

from sonde.results.words import plain_words
from sonde.tasks import TASKS


def label_of(task: str) -> str:
    """A task as a reader knows it: short names in capitals, as the papers have them.

    >>> label_of("npt"), label_of("ast_depth")
    ('NPT', 'ast depth')
    """
    return task.upper() if len(task) <= 3 else plain_words(task)


def meaning_of(task: str) -> str:
    """What a task asks, in a line; empty for one that a user handed in.

    >>> meaning_of("csc")
    'number of code structures: if, loops, switch and try'
    """
    return _meanings().get(task, "").removeprefix(f"{label_of(task)}: ")


@cache
def _meanings() -> dict[str, str]:
    return {header.name: header.summary for header in TASKS.headers()}
