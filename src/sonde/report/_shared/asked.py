"""What a task is called on the page, and what it asks."""

from __future__ import annotations

from collections.abc import Iterable
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


OTHER = "other"
"""Family of tasks that a user handed in."""


@cache
def family_of(task: str) -> str:
    """The family of a task, which is the folder that it lies in; `OTHER` for a user's own.

    >>> family_of("cpx"), family_of("mine")
    ('complexity', 'other')
    """
    return TASKS.folder_of(task) or OTHER


def by_family(tasks: Iterable[str]) -> dict[str, list[str]]:
    """Tasks by family, families and their tasks by name, a user's own last.

    >>> by_family(["npt", "mine", "ktx", "cpx"])
    {'complexity': ['cpx', 'npt'], 'tokens': ['ktx'], 'other': ['mine']}
    """
    found: dict[str, list[str]] = {}
    for task in sorted(set(tasks), key=lambda task: (family_of(task) == OTHER, family_of(task), task)):
        found.setdefault(family_of(task), []).append(task)
    return found


def ordered(tasks: Iterable[str]) -> list[str]:
    """Tasks in the order of their families."""
    return [task for held in by_family(tasks).values() for task in held]
