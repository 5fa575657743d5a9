"""Executors, which map a function over jobs in this process, in several or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar, runtime_checkable

from sonde.base.errors import UsageError
from sonde.base.registry import Registry

__all__ = [
    "EXECUTORS",
    "JOBS_PER_WORKER",
    "ClusterExecutor",
    "Executor",
    "PersistentExecutor",
    "connect_executor",
    "count_cores",
    "is_on_cluster",
    "keep_processes",
]

JOBS_PER_WORKER = 2
"""Maximum of jobs in flight per worker: one to run, and one so that the worker need not wait."""

Job = TypeVar("Job")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Protocol of a map of a function over jobs.

    Jobs and results are plain data, keys or texts, never tensors, and name no file of the local disk if they
    may go to another machine. A job that writes tables has the folder of the run as its ``root`` and writes
    them there under its key, so that a restarted job repeats no finished work; an executor may restart a job
    after its process died. Errors of sonde are raised unchanged. A map that ends early, by an error or by its
    caller, starts no further job.
    """

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """Yield each job with its result, in order of completion.

        Jobs are consumed lazily: at most `JOBS_PER_WORKER` per worker are in memory at a time, including
        those whose results have not been consumed yet.

        Args:
            function: A top-level function, importable in another process.
            jobs: The jobs, all with the same ``root`` and the same type of device.
            workers: Number of parallel workers.

        Raises:
            SondeError: A job failed; results yielded before are unaffected.
        """
        ...


@runtime_checkable
class PersistentExecutor(Executor, Protocol):
    """Protocol of an executor whose processes may outlive a map."""

    def keep_processes(self, workers: int) -> AbstractContextManager[None]:
        """Keep processes between the maps in this context, for jobs that need no accelerator.

        They start when the first map needs them. A process takes seconds to start and import its code, which
        would take most of the time of many short maps.

        Args:
            workers: Number of processes; a map that needs more may start them itself.
        """
        ...


@runtime_checkable
class ClusterExecutor(Executor, Protocol):
    """Protocol of an executor for other machines, to which a run connects before it reads anything."""

    def connect(self, address: str, workers: int) -> None:
        """Connect to the machines for later maps of this process.

        Args:
            address: Address of the cluster; empty for the one that the environment names.
            workers: Number of parallel workers of later maps.

        Raises:
            UsageError: Nothing answers at the address.
        """
        ...


EXECUTORS: Registry[Executor] = Registry("sonde.executors", "executor", "executor", protocols=(Executor,))


def keep_processes(name: str, workers: int) -> AbstractContextManager[None]:
    """Keep the processes of an executor between maps, see `PersistentExecutor`; others ignore it."""
    executor = EXECUTORS.load(name)
    return executor.keep_processes(workers) if isinstance(executor, PersistentExecutor) else nullcontext()


def is_on_cluster(name: str) -> bool:
    """Return whether an executor may run jobs on other machines."""
    return isinstance(EXECUTORS.load(name), ClusterExecutor)


def connect_executor(name: str, address: str, workers: int) -> None:
    """Connect an executor to its machines.

    Args:
        name: Public name of the executor.
        address: Address of its cluster; empty for the one that the environment names, or for this machine.
        workers: Number of parallel workers of later maps.

    Raises:
        UnknownNameError: There is no such executor.
        UsageError: Nothing answers at the address, or the executor takes none.
    """
    executor = EXECUTORS.load(name)
    if isinstance(executor, ClusterExecutor):
        executor.connect(address, workers)
    elif address:
        raise UsageError(
            f"executor {name!r} runs on this machine and has no address; leave out --address, "
            "or add --executor ray"
        )


def count_cores() -> int:
    """Count the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
