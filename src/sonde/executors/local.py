"""This machine: one process, or several that share nothing but the disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from sonde.base.errors import SondeError

Job = TypeVar("Job")
Result = TypeVar("Result")


def _share_cores(workers: int) -> None:
    """Give each worker its part of the cores, before any numerical library starts its threads."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(name, threads)


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
        pool = ProcessPoolExecutor(
            min(workers, len(jobs)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_share_cores,
            initargs=(workers,),
        )
        try:
            futures = {pool.submit(function, job): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise SondeError(
                f"a worker process of {workers} died (out of memory?); finished parts are kept, "
                "run the same command again, with fewer --workers if it repeats"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


executor = LocalExecutor()
