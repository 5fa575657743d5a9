"""This machine: one process, or several that share nothing but the disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, islice
from multiprocessing import connection
from threading import Thread
from typing import TypeVar

from sonde.base.errors import SondeError
from sonde.base.process import safe_path_environment
from sonde.executors import JOBS_PER_WORKER

SYNONYMS = ("multiprocessing",)

Job = TypeVar("Job")
Result = TypeVar("Result")


def _start_worker(workers: int) -> None:
    """Initialise a worker: share the cores before a numerical library starts, and exit with the parent."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(name, threads)
    # An idle worker does not notice that its parent was killed, and keeps its model in memory.
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


_POLL_SECONDS = 1.0
"""Interval of checks for dead workers while no result arrives."""

_persistent_pool: ContextVar[ProcessPoolExecutor | None] = ContextVar("kept", default=None)


@contextmanager
def _translate_start_errors(workers: int) -> Generator[None]:
    """Translate errors of starting processes in this context.

    Raises:
        SondeError: The system gives this user no more processes, open files or memory.
        BrokenProcessPool: A worker died while another one was started, and closed the pipes.
    """
    try:
        with safe_path_environment():
            yield
    except OSError as error:
        # Errors of the system have a number; a pipe that the pool closed meanwhile ("handle is closed")
        # has none.
        if error.errno is None:
            raise BrokenProcessPool(str(error)) from error
        raise SondeError(
            f"cannot start {workers} worker processes: {error.strerror or error}; finished parts are kept, "
            "run the same command again with fewer --workers, or raise the limit (see `ulimit -a`)"
        ) from error


def _start_pool(workers: int) -> ProcessPoolExecutor:
    with _translate_start_errors(workers):
        return ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_worker,
            initargs=(workers,),
        )


class LocalExecutor:
    """Executor on this machine, with spawned processes (never forked, since torch has threads)."""

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """Yield jobs with results; a single job or worker runs in this process.

        See `sonde.executors.Executor.map`.
        """
        remaining = iter(jobs)
        first = list(islice(remaining, workers)) if workers > 1 else []
        if len(first) <= 1:
            for job in chain(first, remaining):
                yield job, function(job)
            return
        persistent_pool = _persistent_pool.get()
        pool = persistent_pool or _start_pool(len(first))
        futures: dict[Future[Result], Job] = {}
        try:
            for job in chain(first, remaining):
                # Submitting a job may start a process.
                with _translate_start_errors(workers):
                    futures[pool.submit(function, job)] = job
                if len(futures) == JOBS_PER_WORKER * len(first):
                    yield from _yield_results(pool, futures)
            while futures:
                yield from _yield_results(pool, futures)
        except BrokenProcessPool as error:
            raise SondeError(
                f"a worker process of {workers} died (out of memory?); finished parts are kept, "
                "run the same command again, with fewer --workers if it repeats"
            ) from error
        finally:
            if persistent_pool is None:
                pool.shutdown(wait=True, cancel_futures=True)
            else:
                for future in futures:
                    future.cancel()

    @contextmanager
    def keep_processes(self, workers: int) -> Generator[None]:
        """Keep processes; a no-op for one worker or fewer.

        See `sonde.executors.PersistentExecutor.keep_processes`.
        """
        if workers <= 1:
            yield
            return
        pool = _start_pool(workers)
        token = _persistent_pool.set(pool)
        try:
            yield
        finally:
            _persistent_pool.reset(token)
            pool.shutdown(wait=True, cancel_futures=True)


def _yield_results(
    pool: ProcessPoolExecutor, futures: dict[Future[Result], Job]
) -> Iterator[tuple[Job, Result]]:
    """Wait for at least one future; yield and remove all that are done."""
    done: set[Future[Result]] = set()
    while not done:
        done, _ = wait(futures, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        if not done:
            _break_dead_pool(pool)
    for future in done:
        yield futures.pop(future), future.result()


def _break_dead_pool(pool: ProcessPoolExecutor) -> None:
    """Stop a pool whose worker has died, so that its futures raise `BrokenProcessPool`.

    The pool notices by itself, unless the worker died while it sent a result: then the pool's thread waits
    forever for the rest, and the other workers for their turn. The thread reads an end of file once the other
    end of the pipe is closed in all workers and in this process.
    """
    workers = list((getattr(pool, "_processes", None) or {}).values())
    if not connection.wait([worker.sentinel for worker in workers], timeout=0):
        return
    for worker in workers:
        worker.kill()
    writer = getattr(getattr(pool, "_result_queue", None), "_writer", None)
    if writer is not None and not writer.closed:
        writer.close()


executor = LocalExecutor()
