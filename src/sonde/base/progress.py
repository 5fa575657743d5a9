"""How a long computation tells a person where it stands."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Advance(Protocol):
    """Called with the number of finished units of a stage, and the time left where it is known."""

    def __call__(self, count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
        """Report ``count`` more units as finished.

        Args:
            count: Units of the stage; 0 to report a new estimate only.
            remaining: Seconds until the stage ends; None if nobody knows better than from the units.
            reused: Whether an earlier run finished these units, so that they say nothing about the speed.
        """
        ...


class Progress(Protocol):
    """A terminal, a notebook, a log or nothing."""

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Begin a stage of ``total`` units; leaving the context ends it."""
        ...

    def note(self, line: str) -> None:
        """Say one line."""
        ...


def ignore_advance(_count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
    """Report nothing; see `Advance`."""


class NullProgress:
    """Says nothing: for tests and for use as a library."""

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """See `Progress.stage`."""
        return nullcontext(ignore_advance)

    def note(self, line: str) -> None:
        """See `Progress.note`."""
