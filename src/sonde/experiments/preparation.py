"""Inputs parsed, cut into subwords and aligned: here, or by processes ahead of the device that reads them.

An accelerator reads an input in less time than it takes to prepare it, so beside one, processes prepare what
comes next; models that share a tokenizer share what was prepared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import get_context
from pathlib import Path

from sonde.base.children import safe_children
from sonde.base.fingerprint import hash_text
from sonde.capture.preparing import prepare_with
from sonde.capture.requests import Prepared
from sonde.corpora import Item
from sonde.experiments.plan import ObserveJob
from sonde.experiments.pools import JobPool
from sonde.experiments.tables import read_inputs
from sonde.models import LoadedModel, ModelSpec, load_tokenizer
from sonde.store.rundir import RunDirectory

_AHEAD = 2
"""Pools that are prepared before it is their turn; each is held until it is read."""

_Key = tuple[str, str, str, tuple[str, ...]]


def items_of(job: ObserveJob) -> list[Item]:
    """The items of a job, in its order."""
    return read_inputs(RunDirectory(Path(job.root)), job.corpus, job.language, job.item_ids)


def prepare_job(job: ObserveJob) -> list[Prepared]:
    """Prepare a job's items; nothing of the model but its tokenizer is read."""
    return prepare_with(load_tokenizer(job.model), items_of(job))


def prepared_of(loaded: LoadedModel, pool: JobPool) -> list[list[Prepared]]:
    """What a pool's jobs read, prepared ahead if it was."""
    ahead = _ahead.get()
    if ahead is not None and pool in ahead:
        return ahead.take(pool)
    return [prepare_with(loaded.tokenizer, items_of(job)) for job in pool.jobs]


class Ahead:
    """Prepares pools in other processes, in their order.

    Args:
        pools: What will be read.
        workers: How many processes.
    """

    def __init__(self, pools: Sequence[JobPool], workers: int) -> None:
        self._waiting = list(pools)
        self._keys: dict[ModelSpec, str] = {}
        # What several models read is kept until the last of them has.
        self._uses = Counter(self._key(job) for pool in pools for job in pool.jobs)
        self._futures: dict[_Key, Future[list[Prepared]]] = {}
        with safe_children():
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def __contains__(self, pool: JobPool) -> bool:
        """Whether a pool is yet to be taken."""
        return pool in self._waiting

    def take(self, pool: JobPool) -> list[list[Prepared]]:
        """What a pool's jobs read; the next pools are begun."""
        at = self._waiting.index(pool)
        for coming in self._waiting[at : at + 1 + _AHEAD]:
            self._begin(coming)
        self._waiting.remove(pool)
        return list(self._taken(pool))

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, pool: JobPool) -> None:
        with safe_children():
            for job in pool.jobs:
                key = self._key(job)
                if key not in self._futures:
                    self._futures[key] = self._pool.submit(prepare_job, job)

    def _taken(self, pool: JobPool) -> Iterator[list[Prepared]]:
        for job in pool.jobs:
            key = self._key(job)
            self._uses[key] -= 1
            found = self._futures[key] if self._uses[key] else self._futures.pop(key)
            yield found.result()

    def _key(self, job: ObserveJob) -> _Key:
        if job.model not in self._keys:
            tokenizer = load_tokenizer(job.model)
            self._keys[job.model] = hash_text(f"{type(tokenizer)} {tokenizer.backend_tokenizer.to_str()}")
        return self._keys[job.model], job.corpus, job.language, job.item_ids


_ahead: ContextVar[Ahead | None] = ContextVar("ahead", default=None)


@contextmanager
def preparing_ahead(pools: Sequence[JobPool], workers: int) -> Generator[None]:
    """Within it, pools of several jobs are prepared by other processes.

    Args:
        pools: What will be read, in its order.
        workers: How many processes; fewer than one changes nothing.
    """
    pools = [pool for pool in pools if len(pool.jobs) > 1]
    if workers < 1 or not pools:
        yield
        return
    ahead = Ahead(pools, workers)
    token = _ahead.set(ahead)
    try:
        yield
    finally:
        _ahead.reset(token)
        ahead.close()
