"""Executors: one map over jobs, in this process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from sonde.base.registry import Registry

__all__ = ["EXECUTORS", "Cluster", "Executor", "cores", "on_cluster"]

Job = TypeVar("Job")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Runs a function over jobs.

    Jobs and results are small plain data: keys, never tensors. A job with tables to write names the folder
    of the run as its ``root`` and writes them there under its key, so that one begun again repeats nothing
    that is there; an executor may begin a job again after its process died. An error of sonde's arrives as
    it was raised. A map that is left early, by an error or by its caller, begins no further job.
    """

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


@runtime_checkable
class Cluster(Executor, Protocol):
    """An executor that runs jobs elsewhere and is reached before a run reads anything."""

    def connect(self, address: str, workers: int) -> None:
        """Reach the machines that later maps of this process use.

        Args:
            address: Where they are; empty for what the environment names.
            workers: How many jobs there will be at a time.

        Raises:
            UsageError: Nothing answers there.
        """
        ...


EXECUTORS: Registry[Executor] = Registry("sonde.executors", "executor", "executor", protocols=(Executor,))


def on_cluster(name: str) -> bool:
    """Whether the executor of a name runs jobs on machines that need not be this one."""
    return isinstance(EXECUTORS.load(name), Cluster)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
