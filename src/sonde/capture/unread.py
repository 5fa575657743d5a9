"""What a model's own code raises on an input, told from what is raised elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sonde.base.errors import SondeError
from sonde.capture.row import Row
from sonde.models._memory import out_of_memory
from sonde.models._quiet import FAULTS, one_line

Result = TypeVar("Result")


class UnreadError(Exception):
    """A model's own code failed on what it was given."""

    def apart(self, batch: Sequence[Row], unread: dict[int, str]) -> list[list[Row]]:
        """The rows of a batch one by one, the first last; of a single row, its input is noted as unread."""
        if len(batch) > 1:
            return [[row] for row in reversed(batch)]
        unread.setdefault(batch[0].source, str(self))
        return []


def if_it_reads(work: Callable[[], Result]) -> Result | None:
    """What some work gives; None where the model's own code failed."""
    try:
        return work()
    except UnreadError:
        return None


@contextmanager
def reading_errors() -> Generator[None]:
    """Turn what a model's own code raises into an `UnreadError`, but for memory that ran out.

    Raises:
        UnreadError: It raised something.
    """
    try:
        yield
    except FAULTS as error:
        if isinstance(error, SondeError) or out_of_memory(error):
            raise
        raise UnreadError(one_line(error)) from error
