"""What an executor answers: one map, results as they finish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

Job = TypeVar("Job")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Runs a function over jobs. Jobs and results are small plain data: keys, never tensors."""

    def map(
        self, function: Callable[[Job], Result], jobs: Sequence[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """Yield each job with its result, in whatever order they finish.

        Args:
            function: A top-level function, importable in another process.
            jobs: The jobs.
            workers: How many at a time.

        Raises:
            SondeError: A job failed; results yielded before are unaffected.
        """
        ...
