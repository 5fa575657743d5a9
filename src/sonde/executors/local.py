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
from threading import Thread
from typing import TypeVar

from sonde.base.children import safe_children
from sonde.base.errors import SondeError
from sonde.executors import IN_FLIGHT

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
        self, function: Callable[[Job], Result], jobs: Iterable[Job], *, workers: int
    ) -> Iterator[tuple[Job, Result]]:
        """See `sonde.executors.Executor.map`; where there is one job or one worker, it is this process."""
        left = iter(jobs)
        first = list(islice(left, workers)) if workers > 1 else []
        if len(first) <= 1:
            for job in chain(first, left):
                yield job, function(job)
            return
        kept = _kept.get()
        pool = kept or _started(len(first))
        flying: dict[Future[Result], Job] = {}
        try:
            for job in chain(first, left):
                # A process may start with any job that finds none free.
                with safe_children():
                    flying[pool.submit(function, job)] = job
                if len(flying) == IN_FLIGHT * len(first):
                    yield from _finished(flying)
            while flying:
                yield from _finished(flying)
        except BrokenProcessPool as error:
            raise SondeError(
                f"a worker process of {workers} died (out of memory?); finished parts are kept, "
                "run the same command again, with fewer --workers if it repeats"
            ) from error
        finally:
            if kept is None:
                pool.shutdown(wait=True, cancel_futures=True)
            else:
                for future in flying:
                    future.cancel()

    @contextmanager
    def kept_processes(self, workers: int) -> Generator[None]:
        """See `sonde.executors.KeepsProcesses.kept_processes`; 1 or fewer changes nothing."""
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


def _finished(flying: dict[Future[Result], Job]) -> Iterator[tuple[Job, Result]]:
    """Those that are done, one at least, taken from the jobs in flight."""
    done, _ = wait(flying, return_when=FIRST_COMPLETED)
    for future in done:
        yield flying.pop(future), future.result()


executor = LocalExecutor()
