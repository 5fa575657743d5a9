"""Executors: one map over jobs, in this process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar, runtime_checkable

from sonde.base.errors import UsageError
from sonde.base.registry import Registry

__all__ = [
    "EXECUTORS",
    "IN_FLIGHT",
    "Cluster",
    "Executor",
    "KeepsProcesses",
    "cores",
    "kept_processes",
    "on_cluster",
    "reach",
]

IN_FLIGHT = 2
"""Jobs a worker, at most, that are begun or wait for it: one to do, and one so that it need not wait."""

Job = TypeVar("Job")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Runs a function over jobs.

    Jobs and results are plain data, keys or texts, never tensors, and name nothing on this machine's own disk
    where they may go to another one. A job with tables to write names the folder of the run as its ``root``
    and writes them there under its key, so that one begun again repeats nothing that is there; an executor
    may begin a job again after its process died. An error of sonde's arrives as it was raised. A map that is
    left early, by an error or by its caller, begins no further job.
    """

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """Yield each job with its result, in whatever order they finish.

        Jobs are taken one by one as places come free, so they may be made as they are needed: no more than
        `IN_FLIGHT` a worker are held at a time, those counted whose results have not been taken yet.

        Args:
            function: A top-level function, importable in another process.
            jobs: The jobs, all with one ``root`` and for one kind of device.
            workers: How many at a time.

        Raises:
            SondeError: A job failed; results yielded before are unaffected.
        """
        ...


@runtime_checkable
class KeepsProcesses(Executor, Protocol):
    """An executor whose processes outlive a map."""

    def kept_processes(self, workers: int) -> AbstractContextManager[None]:
        """Within it, maps of jobs that need no accelerator use the same processes.

        They start when the first map needs them. Each takes some seconds to start and to import what it runs:
        many short maps one after the other would spend most of their time on that.

        Args:
            workers: How many; what a map asks for beyond them it may start by itself.
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


def kept_processes(name: str, workers: int) -> AbstractContextManager[None]:
    """See `KeepsProcesses.kept_processes`; an executor that starts its processes anew each time may do so."""
    executor = EXECUTORS.load(name)
    return executor.kept_processes(workers) if isinstance(executor, KeepsProcesses) else nullcontext()


def on_cluster(name: str) -> bool:
    """Whether the executor of a name runs jobs on machines that need not be this one."""
    return isinstance(EXECUTORS.load(name), Cluster)


def reach(name: str, address: str, workers: int) -> None:
    """Reach the machines of an executor, before anything is read.

    Args:
        name: Public name of the executor.
        address: Where its machines are; empty for what the environment names, or for this machine.
        workers: How many jobs there will be at a time.

    Raises:
        UnknownNameError: There is no such executor.
        UsageError: Nothing answers there, or the executor has no address.
    """
    executor = EXECUTORS.load(name)
    if isinstance(executor, Cluster):
        executor.connect(address, workers)
    elif address:
        raise UsageError(
            f"executor {name!r} runs on this machine and has no address; leave out --address, "
            "or add --executor ray"
        )


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
