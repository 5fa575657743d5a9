"""This machine: one process, or several that share nothing but the disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Thread
from typing import TypeVar

from sonde.base.children import safe_children
from sonde.base.errors import SondeError

Job = TypeVar("Job")
Result = TypeVar("Result")


def _begin(workers: int) -> None:
    """Give a worker its part of the cores before a numerical library starts; let it end with its parent."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(name, threads)
    # A worker that waits for its next job does not notice that its parent was killed, and keeps its model.
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


_kept: ContextVar[ProcessPoolExecutor | None] = ContextVar("kept", default=None)


@contextmanager
def kept_processes(workers: int) -> Generator[None]:
    """Within it, every map here that is spread over processes uses the same ones.

    They start when the first map needs them. Each takes a second or two to start and to import what it runs:
    many short maps one after the other would spend most of their time on that.

    Args:
        workers: How many; 1 or fewer changes nothing.
    """
    if workers <= 1:
        yield
        return
    pool = _started(workers)
    token = _kept.set(pool)
    try:
        yield
    finally:
        _kept.reset(token)
        pool.shutdown(wait=True, cancel_futures=True)


def _started(workers: int) -> ProcessPoolExecutor:
    with safe_children():
        return ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(workers,),
        )


class LocalExecutor:
    """Runs jobs here, with ``workers`` processes started afresh (never forked: torch keeps threads)."""

    def map(
        self, function: Callable[[Job], Result], jobs: Sequence[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """See `sonde.executors.Executor.map`."""
        if workers <= 1 or len(jobs) <= 1:
            for job in jobs:
                yield job, function(job)
            return
        kept = _kept.get()
        pool = kept or _started(min(workers, len(jobs)))
        futures: dict[Future[Result], Job] = {}
        try:
            # The processes start with the first job.
            with safe_children():
                futures = {pool.submit(function, job): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise SondeError(
                f"a worker process of {workers} died (out of memory?); finished parts are kept, "
                "run the same command again, with fewer --workers if it repeats"
            ) from error
        finally:
            if kept is None:
                pool.shutdown(wait=True, cancel_futures=True)
            else:
                for future in futures:
                    future.cancel()


executor = LocalExecutor()
