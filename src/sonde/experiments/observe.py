"""Observation of inputs with models: the stage of a run and the job that it hands to executors.

A job has keys as input and tables as output. It runs in this process or in any other that has the folder of
the run; other machines find a model only in that folder. The stage tries a few inputs of each kind, reports
how long all will take, and then reads them all.

Inputs are parsed, split into subwords and aligned in this process, or by processes ahead of the device that
reads them. An accelerator reads an input in less time than it takes to prepare it, so next to one, processes
prepare the next inputs; models that share a tokenizer share the prepared inputs.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from sonde.alignment import get_surfaces
from sonde.base.errors import UsageError
from sonde.base.fingerprint import hash_text
from sonde.base.process import read_clock, safe_path_environment
from sonde.base.progress import Advance, Progress, ignore_advance
from sonde.capture.requests import (
    Pass,
    Plain,
    Prepared,
    TokenEndScores,
    TokenScores,
    prepare,
    prepare_items,
    with_bos,
)
from sonde.corpora import Item
from sonde.executors import EXECUTORS, is_on_cluster
from sonde.executors.local import LocalExecutor
from sonde.experiments.cost import (
    WORTH_A_TRIAL,
    Forecast,
    JobProfile,
    group_trial_jobs,
    observation_work,
    put_trials_first,
)
from sonde.experiments.experiment import Execution, LensChoice, get_lens_settings
from sonde.experiments.plan import JobBatch, ObserveJob, Part, TrainJob, assign_device, batch_jobs
from sonde.experiments.progress import Session
from sonde.lenses import LENSES, CapturedItem, load_reading_lens
from sonde.lenses.engine.item_tables import read_inputs, scan_inputs
from sonde.lenses.engine.lens import ServerOptions
from sonde.models import LoadedModel, ModelSpec, describe_model, load_model, load_tokenizer, point_to_folder
from sonde.models.engine.external import get_server
from sonde.models.engine.files import takes_texts, uses_server
from sonde.results.schema import scan_files
from sonde.store.parts import PartStore, TableCache
from sonde.store.run_folder import RunDirectory, group_prefix, label_path

if TYPE_CHECKING:
    from sonde.capture.forward import ObservedItem

_PREFETCH_COUNT = 2
"""Pools that are prepared before it is their turn; each is held until it is read."""


_Key = tuple[str, str, str, tuple[str, ...]]


def read_job_items(job: ObserveJob) -> list[Item]:
    """Read the items of a job, in its order."""
    return read_inputs(RunDirectory(Path(job.root)), job.corpus, job.language, job.item_ids)


def prepare_job(job: ObserveJob) -> list[Prepared]:
    """Prepare a job's items; nothing of the model but its tokenizer is read."""
    return prepare_items(load_tokenizer(job.model), read_job_items(job))


class Prefetcher:
    """Prepares pools in other processes, in their order.

    Args:
        pools: What will be read.
        workers: How many processes.
    """

    def __init__(self, pools: Sequence[JobBatch], workers: int) -> None:
        self._waiting = list(pools)
        self._keys: dict[ModelSpec, str] = {}
        # What several models read is kept until the last of them has.
        self._uses = Counter(self._key(job) for pool in pools for job in pool.jobs)
        self._futures: dict[_Key, Future[list[Prepared]]] = {}
        with safe_path_environment():
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def __contains__(self, pool: JobBatch) -> bool:
        """Return whether a pool is yet to be taken."""
        return pool in self._waiting

    def take(self, pool: JobBatch) -> list[list[Prepared]]:
        """Return the prepared inputs of a pool's jobs, and begin the next pools."""
        position = self._waiting.index(pool)
        for next_pool in self._waiting[position : position + 1 + _PREFETCH_COUNT]:
            self._begin(next_pool)
        self._waiting.remove(pool)
        return list(self._collect(pool))

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, pool: JobBatch) -> None:
        with safe_path_environment():
            for job in pool.jobs:
                key = self._key(job)
                if key not in self._futures:
                    self._futures[key] = self._pool.submit(prepare_job, job)

    def _collect(self, pool: JobBatch) -> Iterator[list[Prepared]]:
        for job in pool.jobs:
            key = self._key(job)
            self._uses[key] -= 1
            future = self._futures[key] if self._uses[key] else self._futures.pop(key)
            yield future.result()

    def _key(self, job: ObserveJob) -> _Key:
        if job.model not in self._keys:
            tokenizer = load_tokenizer(job.model)
            self._keys[job.model] = hash_text(f"{type(tokenizer)} {tokenizer.backend_tokenizer.to_str()}")
        return self._keys[job.model], job.corpus, job.language, job.item_ids


@contextmanager
def prefetch(pools: Sequence[JobBatch], workers: int) -> Generator[Prefetcher | None]:
    """Prepare pools of several jobs in other processes.

    Args:
        pools: What will be read, in its order.
        workers: How many processes; fewer than one gives None.
    """
    pools = [pool for pool in pools if len(pool.jobs) > 1]
    if workers < 1 or not pools:
        yield None
        return
    prefetcher = Prefetcher(pools, workers)
    try:
        yield prefetcher
    finally:
        prefetcher.close()


Row = TypeVar("Row")


ITEMS_A_TABLE = 32
"""Items that a lens turns into rows at a time: enough to work on columns, few enough to be held."""


_TRIAL_SECONDS, _MINIMUM_INPUTS = 1.0, 4
"""What the inputs of a trial may take together, and how many there are at least: they differ in length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Report of a job; small and plain.

    Attributes:
        computed: Whether a forward pass was needed.
        cached: Whether the tables were taken from another run.
        damaged: Parts that were found damaged.
        resumed: Items that an earlier call had read before it was stopped.
        seconds: What it took, the loading of the model left out.
        late: Whether the time was up before its turn, so that tables are missing.
    """

    computed: bool
    cached: bool = False
    late: bool = False
    damaged: tuple[str, ...] = ()
    resumed: int = 0
    seconds: float = 0.0


class _Watch:
    """Tells the progress of a run and its forecast how far the jobs are that this process observes.

    Args:
        forecast: What is left of the run.
        profiles: The profile of each job.
        advance: Of the stage.
        deadline: As in `sonde.experiments.plan.JobBatch`.
    """

    def __init__(self, forecast: Forecast, profiles: _JobProfiles, advance: Advance, deadline: float) -> None:
        self._forecast, self._profiles, self._advance = forecast, profiles, advance
        # The clock of deadlines is that of all machines.
        self._end = math.inf if deadline == math.inf else time.monotonic() + deadline - read_clock()
        self._jobs: Sequence[ObserveJob] = ()
        self._left = 1.0
        self._begin = self._read_begin = self._followed = 0.0
        self._estimate: tuple[float, float | None] = (-math.inf, None)
        self._planned = self._done = 0.0
        self._counted = 0

    def begin(self, jobs: Sequence[ObserveJob], resumed: int) -> None:
        """Begin jobs whose model is loaded, of which an earlier call has read some inputs."""
        self._jobs = jobs
        self._left = 1 - resumed / max(1, sum(len(job.item_ids) for job in jobs))
        self._begin = self._read_begin = time.monotonic()
        self._planned = self._done = 0.0
        self.count(resumed)

    def plan(self, work: Mapping[str, float]) -> None:
        """See `sonde.capture.forward.ReadListener.plan`."""
        job = self._jobs[0]
        characters = self._profiles.lengths(job)
        lengths = [(float(characters[item]), units) for item, units in work.items() if item in characters]
        self._forecast.learn_lengths(self._profiles[job], lengths)
        if not self._planned:
            self._read_begin = time.monotonic()
        self._planned += sum(work.values())

    def advance(self, work: float) -> None:
        """See `sonde.capture.forward.ReadListener.advance`."""
        self._done += work
        now = time.monotonic()
        if not self._planned or now - self._followed < _SECONDS_BETWEEN_ESTIMATES:
            return
        self._followed = now
        share = min(1.0, self._done / self._planned)
        # Preparing comes first, and belongs to what is read later as well.
        seconds = now - self._read_begin + share * (self._read_begin - self._begin)
        profiles = [self._profiles[job] for job in self._jobs]
        self._forecast.follow(profiles, share, seconds, self._left)
        self._advance(0, remaining=self._remaining_seconds())

    def count(self, inputs: int) -> None:
        """Count inputs that were read."""
        self._counted += inputs
        self._advance(inputs, remaining=self._remaining_seconds())

    def end(self, job: ObserveJob) -> None:
        """Count the inputs of a finished job that were not counted one by one."""
        counted = min(self._counted, len(job.item_ids))
        self._counted -= counted
        self._advance(len(job.item_ids) - counted, remaining=self._remaining_seconds())

    def _remaining_seconds(self) -> float | None:
        """Return the seconds left of the run, estimated a moment ago at the earliest."""
        now = time.monotonic()
        when, estimate = self._estimate
        if now - when >= _SECONDS_BETWEEN_ESTIMATES:
            when, estimate = self._estimate = now, self._forecast.estimate()
        estimate = None if estimate is None else max(0.0, estimate - (now - when))
        # A deadline ends the reading, whatever is left.
        if self._end < math.inf:
            budget_left = max(0.0, self._end - now)
            return budget_left if estimate is None else min(budget_left, estimate)
        return estimate


_SECONDS_BETWEEN_ESTIMATES = 0.5


_SECONDS_BETWEEN_PIECES = 20.0
"""What was read is written at least so often, so that a kill costs less than a minute of work."""


_model_cache: dict[ModelSpec, LoadedModel] = {}
"""The one model that this process holds."""


def _load_model(spec: ModelSpec) -> LoadedModel:
    """Load a model, or return the cached one; the model before is freed first, since both may not fit."""
    if spec not in _model_cache:
        if _model_cache:
            import torch

            _model_cache.clear()
            _list_surfaces.cache_clear()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        _model_cache[spec] = load_model(assign_device(spec))
    return _model_cache[spec]


@functools.lru_cache(maxsize=1)
def _list_surfaces(spec: ModelSpec) -> tuple[str, ...]:
    model = _load_model(spec)
    # A model may score more ids than its tokenizer holds: vocabularies are padded to round numbers.
    return get_surfaces(model.tokenizer, model.capabilities.vocab)


def observe_batch(
    pool: JobBatch, prefetcher: Prefetcher | None = None, watch: _Watch | None = None
) -> list[JobReport]:
    """Observe the items of some jobs and write one table per lens and job.

    Which inputs share a batch is decided over all jobs of the pool, whatever of them is there already.

    Args:
        pool: The jobs.
        prefetcher: Prepares their items in other processes.
        watch: Is told input by input how far it is, in the process of the run.

    Returns:
        A report a job, in their order.

    Raises:
        SondeError: The model cannot be loaded or gave something that must not be scored.
        StoreError: A table could not be written.
    """
    # An executor may have given the folder of the run another path than the jobs were planned with.
    planned_jobs = pool.jobs
    pool = dataclasses.replace(
        pool, jobs=tuple(dataclasses.replace(job, root=pool.root) for job in pool.jobs)
    )
    store = PartStore(Path(pool.root))
    # A server does not say which weights it runs: what it said to another run may be of others.
    cache = TableCache.without_cache() if uses_server(pool.model) else TableCache.from_environment()
    stale_parts = [
        [part for part in job.parts if store.notes(part.relative, part.key) is None] for job in pool.jobs
    ]
    missing = [
        [part for part in parts if cache.take(store, part.relative, part.key) is None]
        for parts in stale_parts
    ]
    item_counts: dict[int, int] = {}
    resumed: dict[int, int] = {}
    pace = 0.0
    is_late = any(missing) and read_clock() > pool.deadline
    if any(missing) and not is_late:
        if not takes_texts(pool.model):
            _load_model(pool.model)
        begin = time.monotonic()
        if takes_texts(pool.model):
            tables_by_job = _observe_externally(pool, missing, watch)
        else:
            readings = [
                _JobReading(job, parts, pool.model, store)
                for job, parts in zip(pool.jobs, missing, strict=True)
            ]
            resumed = {index: reading.resumed for index, reading in enumerate(readings)}
            if watch is not None:
                # The jobs as they were planned, whatever the folder of the run is called here.
                left_jobs = [job for job, parts in zip(planned_jobs, missing, strict=True) if parts]
                watch.begin(left_jobs, sum(resumed.values()))
            tables_by_job = _observe_tables(pool, readings, prefetcher, watch)
        # Written beside what comes next, since neither needs the other.
        with ThreadPoolExecutor(1) as writer:
            writes: list[Future[None]] = []
            for index, tables in tables_by_job:
                writes.append(writer.submit(_write_parts, store, cache, missing[index], tables))
                item_counts[index] = len(pool.jobs[index].item_ids)
            for writing in writes:
                writing.result()
        read_count = sum(count - resumed.get(index, 0) for index, count in item_counts.items())
        pace = (time.monotonic() - begin) / max(1, read_count)
    return [
        JobReport(
            computed=index in item_counts,
            cached=bool(stale_parts[index]) and not missing[index],
            late=is_late and bool(missing[index]),
            damaged=tuple(store.damaged) if not index else (),
            resumed=resumed.get(index, 0) if index in item_counts else 0,
            seconds=item_counts.get(index, 0) * pace,
        )
        for index in range(len(pool.jobs))
    ]


def _write_parts(store: PartStore, cache: TableCache, parts: Sequence[Part], tables: _Tables) -> None:
    frames, notes = tables
    for part in parts:
        store.put(part.relative, part.key, pl.concat(frames[part.lens.name]), notes)
        store.remove_unfinished(part.relative)
        cache.add(store, part.relative)


_Tables = tuple[dict[str, list[pl.DataFrame]], dict[str, Any]]
"""The tables of each lens, some items each, and the notes on them."""


def _observe_externally(
    pool: JobBatch, missing: Sequence[Sequence[Part]], watch: _Watch | None
) -> Iterator[tuple[int, _Tables]]:
    """Yield the tables of each job that lacks some, read by a server or an external encoder."""
    read_texts = _score_by_server if uses_server(pool.model) else _encode_texts
    for index, (job, parts) in enumerate(zip(pool.jobs, missing, strict=True)):
        if not parts:
            continue
        frames: dict[str, list[pl.DataFrame]] = {}
        notes: dict[str, Any] = {}
        items = read_job_items(job)
        labels, passes = build_requests(job, parts, [])
        for part in parts:
            name, settings = part.lens.name, get_lens_settings(part.lens)
            # Several lenses ask a server in turn; an input is counted when the first has its answer.
            count = watch.count if watch is not None and part is parts[0] else ignore_advance
            captures, surfaces, notes = read_texts(job, part.lens, items, passes[name], count)
            frames[name] = [
                load_reading_lens(part.lens.source).observe(batch, labels[name], settings, surfaces)
                for batch in list(_batch_rows(iter(captures), ITEMS_A_TABLE)) or [[]]
            ]
        yield index, (frames, notes)


_TextCaptures = tuple[list[CapturedItem], Sequence[str], dict[str, Any]]
"""What was read of some texts, the surfaces of the ids in it, and the notes on it."""


def _score_by_server(
    job: ObserveJob,
    lens: LensChoice,
    items: Sequence[Item],
    passes: Sequence[Pass],
    count: Callable[[int], None],
) -> _TextCaptures:
    """Score texts by a server.

    Raises:
        UsageError: A lens asks for more than scores of the text alone.
    """
    from sonde.capture.server import score_by_server

    server = get_server(job.model.name, ServerOptions.among(dict(lens.options)).server)
    reply = score_by_server(server, items, _count_alternatives(lens.name, passes), count)
    captures = [CapturedItem(prepared_item, (capture,)) for prepared_item, capture in reply.captured]
    forwards = {"texts sent to a server": len(items)}
    if reply.declined:
        forwards["texts that it declined"] = len(reply.declined)
    notes = {
        "coverage": _sum_coverage([item_capture.prepared for item_capture in captures]),
        "forwards": forwards,
        "reading": {"scores": reply.way, "declined": sorted(set(reply.declined.values()))[:3]},
    }
    return captures, reply.surfaces, notes


def _encode_texts(
    job: ObserveJob,
    lens: LensChoice,
    items: Sequence[Item],
    passes: Sequence[Pass],
    count: Callable[[int], None],
) -> _TextCaptures:
    """Read texts by an external encoder.

    Raises:
        SondeError: A lens asks for more than a vector per text, or the encoder does not give it.
    """
    from sonde.capture.server import encode_items

    read = encode_items(job.model, items, passes, lens.name)
    count(len(items))
    captures = [CapturedItem(prepared_item, (capture,)) for prepared_item, capture in read]
    return captures, (), {"coverage": {}, "forwards": {"texts encoded": len(items)}, "reading": {}}


class _JobReading:
    """What was read of a job so far, in pieces of items that an earlier call or this one has read.

    Args:
        job: The job.
        parts: Those of its tables that are missing.
        model: What reads it, as this process finds it.
        store: Where pieces are kept until the tables are complete; None keeps none.
    """

    def __init__(
        self, job: ObserveJob, parts: Sequence[Part], model: ModelSpec, store: PartStore | None = None
    ) -> None:
        self.job, self.parts, self._model, self._store = job, parts, model, store
        self.tables: dict[str, list[pl.DataFrame]] = {}
        self.read_ids: set[str] = set()
        self.forwards: Counter[str] = Counter()
        self.unread: dict[str, None] = {}
        self._frames: dict[str, list[pl.DataFrame]] = {part.lens.name: [] for part in parts}
        self._observed: list[ObservedItem] = []
        self._unwritten: list[ObservedItem] = []
        self._pieces = 0
        self._labels = {part.lens.name: _read_labels(job, part.lens) for part in parts}
        if parts and store is not None:
            self._resume(store)
        self.resumed = len(self.read_ids)

    def _resume(self, store: PartStore) -> None:
        """Take in the pieces that all missing tables have."""
        by_part = [store.read_unfinished(part.relative, part.key) for part in self.parts]
        for pieces in zip(*by_part, strict=False):
            item_ids, *other_ids = ([*notes["items"]] for _, notes in pieces)
            # A piece that was written before another one was damaged may hold items that were read again.
            if any(ids != item_ids for ids in other_ids) or not self.read_ids.isdisjoint(item_ids):
                return
            self._pieces += 1
            self.read_ids.update(item_ids)
            self.forwards.update(pieces[0][1]["forwards"])
            self.unread |= dict.fromkeys(pieces[0][1]["unread"])
            for part, (frame, _) in zip(self.parts, pieces, strict=True):
                self._frames[part.lens.name].append(frame)

    @property
    def is_complete(self) -> bool:
        """Return whether all items are read."""
        return len(self.read_ids) == len(self.job.item_ids)

    def add(self, observation: ObservedItem) -> None:
        """Take in an item that was read."""
        self.read_ids.add(observation.prepared.item.item_id)
        self._observed.append(observation)
        self._unwritten.append(observation)

    def write_piece(self) -> None:
        """Write what was read since the last piece."""
        if self._store is None or not self._unwritten or self.is_complete:
            return
        forwards, unread = _count_forwards(self._unwritten)
        notes = {
            "items": [observation.prepared.item.item_id for observation in self._unwritten],
            "forwards": dict(forwards),
            "unread": [*unread],
        }
        for part in self.parts:
            rows = self._build_rows(part, self._unwritten)
            self._store.put_unfinished(part.relative, part.key, self._pieces, rows, notes)
        self._pieces += 1
        self._unwritten = []

    def finish(self) -> None:
        """Build the table of each lens, in the order of the items."""
        order = {item: index for index, item in enumerate(self.job.item_ids)}
        observed = sorted(self._observed, key=lambda observation: order[observation.prepared.item.item_id])
        forwards, unread = _count_forwards(observed)
        self.forwards.update(forwards)
        self.unread |= unread
        for part in self.parts:
            name = part.lens.name
            frames = [self._build_rows(part, block) for block in _batch_rows(iter(observed), ITEMS_A_TABLE)]
            self.tables[name] = [*self._frames[name], *frames]
            if self._frames[name]:
                self.tables[name] = [_sort_by_item(pl.concat(self.tables[name]), self.job.item_ids)]
        self._observed, self._unwritten, self._frames = [], [], {}

    def _build_rows(self, part: Part, observed: Sequence[ObservedItem]) -> pl.DataFrame:
        name = part.lens.name
        captures = [
            CapturedItem(observation.prepared, observation.captures[name])
            for observation in observed
            if not observation.unread
        ]
        settings = get_lens_settings(part.lens, self.job.root)
        surfaces = _list_surfaces(self._model)
        return load_reading_lens(part.lens.source).observe(captures, self._labels[name], settings, surfaces)


def _sort_by_item(table: pl.DataFrame, item_ids: Sequence[str]) -> pl.DataFrame:
    """Sort the rows by the order of the items; those of an item stay in their order."""
    index = {item: number for number, item in enumerate(item_ids)}
    numbers = table["item_id"].cast(pl.String).replace_strict(index, return_dtype=pl.Int64)
    return table.with_columns(numbers.alias("")).sort("", maintain_order=True).drop("")


def _count_forwards(observed: Sequence[ObservedItem]) -> tuple[Counter[str], dict[str, None]]:
    """Count forward passes; return them with what the model said of the inputs that it cannot read."""
    forwards: Counter[str] = Counter()
    unread: dict[str, None] = {}
    for observation in observed:
        forwards.update(run=observation.inputs, shared=observation.shared)
        if observation.halved:
            forwards["batches halved for memory"] += observation.halved
        if observation.unread:
            forwards["inputs that the model could not read"] += 1
            unread[observation.unread] = None
    return forwards, unread


def _observe_tables(
    pool: JobBatch, readings: Sequence[_JobReading], prefetcher: Prefetcher | None, watch: _Watch | None
) -> Iterator[tuple[int, _Tables]]:
    """Yield the tables of each job that lacks some, as soon as all of its items are read."""
    # Imported here, so that what is refused before anything is read does not wait for torch.
    from sonde.capture.attention_backend import describe_backend

    model = _load_model(pool.model)
    if prefetcher is not None and pool in prefetcher:
        inputs = prefetcher.take(pool)
    else:
        inputs = [prepare_items(model.tokenizer, read_job_items(job)) for job in pool.jobs]
    for index in _read_jobs(model, readings, inputs, watch):
        reading = readings[index]
        unread = [*reading.unread][:3]
        precision = {**describe_backend(model), **({"unread": unread} if unread else {})}
        notes = {
            "coverage": _sum_coverage(inputs[index]),
            "forwards": dict(reading.forwards),
            "reading": precision,
        }
        tables, reading.tables = reading.tables, {}
        yield index, (tables, notes)


def time_job(job: ObserveJob) -> tuple[tuple[str, ...], float]:
    """Observe some of a job's inputs and keep nothing, to know how long the others will take.

    One input is read first and tells how many there is time for; its own time does not count, since what is
    done for the first time is slow.

    Args:
        job: The job; its inputs are those that may be tried, by length.

    Returns:
        The inputs that were read, and the seconds that they took together.

    Raises:
        SondeError: As for `observe_batch`.
    """
    model, items = _load_model(job.model), read_job_items(job)
    first = _time_items(model, job, items[len(items) // 2 :][:1])
    number = min(len(items), max(_MINIMUM_INPUTS, int(_TRIAL_SECONDS / max(first, 1e-6))))
    sample = [items[(2 * index + 1) * len(items) // (2 * number)] for index in range(number)]
    return tuple(item.item_id for item in sample), _time_items(model, job, sample)


def _time_items(model: LoadedModel, job: ObserveJob, items: Sequence[Item]) -> float:
    begin = time.monotonic()
    sample_job = dataclasses.replace(job, item_ids=tuple(item.item_id for item in items))
    for _ in _read_jobs(
        model, [_JobReading(sample_job, job.parts, job.model)], [prepare(model, items)], None
    ):
        pass
    return time.monotonic() - begin


def _read_jobs(
    model: LoadedModel,
    readings: Sequence[_JobReading],
    inputs: Sequence[Sequence[Prepared]],
    watch: _Watch | None,
) -> Iterator[int]:
    """Read the jobs that lack tables together, and yield the index of each that is complete.

    Which items share a batch is decided over all items of all jobs. What the model's own code fails on is
    left out and counted. What was read is written in pieces, at the latest when the run is stopped.
    """
    from sonde.capture.forward import observe_as_read
    from sonde.capture.interventions import Patches

    lenses = {part.lens for reading in readings for part in reading.parts}
    first = readings[0].job
    parts = [part for part in first.parts if part.lens in lenses]
    merged_job = dataclasses.replace(
        first, item_ids=tuple(item for reading in readings for item in reading.job.item_ids)
    )
    items = [*itertools.chain(*inputs)]
    settings = dataclasses.replace(parts[0].lens.capture.settings, token_budget=first.batch_tokens)
    _, passes = build_requests(merged_job, parts, items)
    left = {index: reading for index, reading in enumerate(readings) if reading.parts}
    index_by_item = {item: index for index, reading in left.items() for item in reading.job.item_ids}
    held = {
        item for index, reading in enumerate(readings) if index not in left for item in reading.job.item_ids
    }
    held |= {item for reading in left.values() for item in reading.read_ids}
    # Pairs are patched in batches of the items that are not held: with some of them held, numbers would
    # differ in their last digits.
    has_pairs = any(
        isinstance(request, Patches)
        for lens_passes in passes.values()
        for lens_pass in lens_passes
        for request in lens_pass.requests
    )
    written = math.inf if has_pairs else time.monotonic()
    observations = observe_as_read(model, items, passes, settings=settings, held=held, listener=watch)
    try:
        for index in [index for index, reading in left.items() if reading.is_complete]:
            left.pop(index).finish()
            yield index
        for observation in observations:
            index = index_by_item[observation.prepared.item.item_id]
            left[index].add(observation)
            if watch is not None:
                watch.count(1)
            if left[index].is_complete:
                left.pop(index).finish()
                yield index
            if time.monotonic() - written > _SECONDS_BETWEEN_PIECES:
                for reading in left.values():
                    reading.write_piece()
                written = time.monotonic()
    except BaseException as stop:
        # Only signals: an error would occur again, and the rows themselves may have caused it.
        if not isinstance(stop, Exception | GeneratorExit) and not has_pairs:
            for reading in left.values():
                reading.write_piece()
        raise
    finally:
        # Ends the capture at once, which gives the model back as it was.
        observations.close()


def _count_alternatives(lens: str, passes: Sequence[Pass]) -> int:
    """Return how many alternatives a lens requests; a server gives nothing else beside scores."""
    match passes:
        case [
            Pass(
                variant=Plain(cut=False, padded=False),
                requests=(TokenScores(top_k=top_k),) | (TokenScores(top_k=top_k), TokenEndScores()),
            )
        ]:
            return top_k
        case _:
            raise UsageError(
                f"lens {lens!r}: a server only scores unchanged texts, and the options or quirks "
                "of this run need more; leave them out, or use a model on this machine"
            )


def build_requests(
    job: ObserveJob, parts: Sequence[Part], inputs: Sequence[Prepared]
) -> tuple[Mapping[str, Mapping[str, pl.DataFrame]], Mapping[str, Sequence[Pass]]]:
    """Return the labels of each lens by task, and its input requests."""
    labels = {part.lens.name: _read_labels(job, part.lens) for part in parts}
    passes = {
        lens.name: with_bos(
            load_reading_lens(lens.source).input_requests(
                inputs, labels[lens.name], get_lens_settings(lens, job.root)
            ),
            lens.capture.bos,
        )
        for lens in (part.lens for part in parts)
    }
    return labels, passes


def _batch_rows(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch


def _sum_coverage(inputs: Sequence[Prepared]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for prepared_item in inputs:
        counts.update(dataclasses.asdict(prepared_item.alignment.coverage))
    return dict(counts)


def _read_labels(job: ObserveJob, lens: LensChoice) -> dict[str, pl.DataFrame]:
    """Read the label rows of a job's items, by task."""
    # A series, since a list of Python's own is looked through anew for every row.
    prefix, ids = group_prefix(job.corpus, job.language), pl.Series(job.item_ids).implode()
    root, suffix = Path(job.root), lens.labels
    tables = {task: scan_files([root / label_path(task, prefix, suffix)]) for task in lens.tasks}
    return {task: table.filter(pl.col("item_id").is_in(ids)).collect() for task, table in tables.items()}


Handed = TypeVar("Handed", JobBatch, TrainJob)


Result = TypeVar("Result")


def run_jobs(
    session: Session,
    function: Callable[[Handed], Result],
    jobs: Iterable[Handed],
    *,
    stays_here: Callable[[Handed], bool],
    workers_here: int,
) -> Iterator[tuple[Handed, Result]]:
    """Yield each job with its result, in the order in which they finish; those that stay here come last.

    A cluster may have other files at the path of a local checkpoint and another revision of a hub name, so
    jobs name the model there by what it holds. The keys of what they write are those that they have here.

    Args:
        session: The run.
        function: A function that another process can import.
        jobs: The jobs as they were planned.
        stays_here: Whether a job needs this machine.
        workers_here: Processes at a time for those.

    Raises:
        StoreError: A checkpoint cannot be copied into the folder of the run.
        SondeError: A job failed; what was finished is kept.
    """
    execution = session.execution
    local_jobs: list[Handed] = []
    sent_jobs: list[Handed] = []
    for job in jobs:
        (local_jobs if stays_here(job) else sent_jobs).append(job)
    jobs_by_sent_job = {job: job for job in sent_jobs}
    if is_on_cluster(execution.executor):
        folder = session.outcome.directory.models.absolute()
        models = {spec: point_to_folder(spec, folder) for spec in {job.model for job in sent_jobs}}
        jobs_by_sent_job = {dataclasses.replace(job, model=models[job.model]): job for job in sent_jobs}
    executor = EXECUTORS.load(execution.executor)
    for job, result in executor.map(function, list(jobs_by_sent_job), workers=execution.workers):
        yield jobs_by_sent_job[job], result
    yield from LocalExecutor().map(function, local_jobs, workers=workers_here)


TRIAL_INPUTS = 32
"""Inputs that a trial reads at most: fewer than a job has, so that it ends before the first one would."""


_INPUTS_PER_TRIAL_INPUT = 32
"""Inputs that a trial has at least for each one that it may read, so that it is a small part of the run."""


def observe_jobs(
    session: Session, jobs: Sequence[ObserveJob], stage: str = "observe", deadline: float = math.inf
) -> list[ObserveJob]:
    """Run all observations, and estimate the time of each model beforehand.

    A few inputs are read for that, and what comes of them is thrown away: which inputs share a batch stays as
    it is, and so does every number. Where several processes or another machine read there is no trial, since
    one process here says little about how fast they are; then the first jobs tell. Where a deadline ends the
    reading, nothing is estimated.

    Args:
        session: The run.
        jobs: The jobs as they were planned.
        stage: What its time is measured as.
        deadline: As in `sonde.experiments.plan.JobBatch`.

    Returns:
        The jobs whose turn came after the deadline.
    """
    execution, progress, outcome = session.execution, session.progress, session.outcome
    jobs = _with_batch_size(jobs, execution)
    cache = TableCache.from_environment()
    left = frozenset(job for job in jobs if not _is_available(job, cache))
    pools = batch_jobs(jobs, deadline, frozenset(jobs) - left)
    profiles = _JobProfiles(jobs)
    if deadline == math.inf:
        pool_by_job = {job: pool for pool in pools for job in pool.jobs}
        jobs = put_trials_first(jobs, profiles.__getitem__)
        pools = list(dict.fromkeys(pool_by_job[job] for job in jobs))
    forecast = Forecast("observing", "input", profiles.values(), execution.workers, list_savings(jobs))
    for job in frozenset(jobs) - left:
        forecast.done(profiles[job], None)
    _note_lines(sorted({half_precision_note(job.model) for job in left}), progress)
    # An executor from outside may send a job away, and what watches here cannot be sent.
    single_process = execution.workers <= 1 and execution.executor == "local"
    has_forecast = deadline == math.inf
    if has_forecast and not single_process:
        _note_lines(forecast.describe_plan(), progress)
    late: list[ObserveJob] = []
    with (
        outcome.measure_stage(stage),
        prefetch(
            [pool for pool in pools if not left.isdisjoint(pool.jobs)],
            execution.light_workers - 1 if single_process else 0,
        ) as prefetcher,
        progress.stage("observing", sum(len(job.item_ids) for job in jobs)) as advance,
    ):
        watch = _Watch(forecast, profiles, advance, deadline)
        trials = _Trials(left, profiles, forecast)
        # One model after the other, so that a trial loads none that is not needed at once.
        groups = _group_by_subject(pools) if single_process else _group_by_place(pools, deadline)
        if has_forecast and single_process:
            trials.time_large_subjects([[job for pool in group for job in pool.jobs] for group in groups])
        for subject_pools in groups:
            # What is sent to a server costs tokens, and its first job tells as much.
            if has_forecast and single_process and not takes_texts(subject_pools[0].model):
                subject_jobs = [job for pool in subject_pools for job in pool.jobs]
                _note_lines([trials.time_subject(subject_jobs), forecast.advise()], progress)
            for job, report in _run_batches(
                session, subject_pools, prefetcher, watch if single_process else None
            ):
                if report.late:
                    late.append(job)
                    continue
                resumed = report.resumed
                if report.computed:
                    outcome.observed += len(job.item_ids) - resumed
                    outcome.reused += resumed
                    line = forecast.done(profiles[job], None if resumed else report.seconds)
                    _note_lines([line] if has_forecast else [], progress)
                else:
                    # What seemed to be missing was taken from the cache of another process.
                    if job in left:
                        forecast.done(profiles[job], None)
                    outcome.reused += len(job.item_ids)
                    outcome.cached += len(job.item_ids) if report.cached else 0
                outcome.damaged += report.damaged
                watch.end(job)
    cache.trim()
    return late


def _is_available(job: ObserveJob, cache: TableCache) -> bool:
    """Return whether the tables of a job are in the run or in the cache; both are checked when it is done."""
    if uses_server(job.model):
        return has_tables(job)
    return all((Path(job.root) / part.relative).exists() or part.key in cache for part in job.parts)


class _JobProfiles:
    """The profile of each job, and the length of each input.

    Args:
        jobs: The jobs of a stage.
    """

    def __init__(self, jobs: Sequence[ObserveJob]) -> None:
        roots = {(job.corpus, job.language): job.root for job in jobs}
        self._inputs = {
            (corpus, language): dict(
                scan_inputs(RunDirectory(Path(root)), corpus, language)
                .select("item_id", "characters")
                .collect()
                .iter_rows()
            )
            for (corpus, language), root in roots.items()
        }
        costs = {model: _token_cost(model) for model in {job.model for job in jobs}}
        self._profiles = {job: observation_work(job, self.lengths(job), costs[job.model]) for job in jobs}

    def __getitem__(self, job: ObserveJob) -> JobProfile:
        """Return the profile of a job."""
        return self._profiles[job]

    def values(self) -> list[JobProfile]:
        """Return the profiles of all jobs."""
        return [*self._profiles.values()]

    def lengths(self, job: ObserveJob) -> Mapping[str, int]:
        """Return the characters of all inputs of a job's corpus in its language, by id."""
        return self._inputs[job.corpus, job.language]


def _token_cost(model: ModelSpec) -> float:
    """Return the multiplications of one token, as far as the size of a model tells them."""
    if takes_texts(model):
        return 1.0
    size = describe_model(model)
    return max(1.0, 12.0 * size.layers * size.d_model**2 + size.vocab * size.d_model)


def _with_batch_size(jobs: Sequence[ObserveJob], execution: Execution) -> list[ObserveJob]:
    return [dataclasses.replace(job, batch_tokens=execution.batch_tokens or 0) for job in jobs]


def time_models(jobs: Sequence[ObserveJob], execution: Execution) -> tuple[list[str], float]:
    """Read a few inputs of each kind of jobs, and estimate the time of all; nothing of it is kept.

    Args:
        jobs: The jobs of a run; those of models that are handed texts are left out, as a run does.
        execution: How the run would read them.

    Returns:
        A line for each model, as a run says it, then what to give up if they take long; and the seconds.
    """
    jobs = [job for job in _with_batch_size(jobs, execution) if not takes_texts(job.model)]
    profiles = _JobProfiles(jobs)
    forecast = Forecast("observing", "input", profiles.values(), execution.workers, list_savings(jobs))
    trials = _Trials(frozenset(jobs), profiles, forecast, minimum=0)
    lines = [
        trials.time_subject([job for pool in subject_pools for job in pool.jobs])
        for subject_pools in _group_by_subject(batch_jobs(jobs))
    ]
    return [*lines, *filter(None, [forecast.advise()])], forecast.remaining_seconds()


def list_savings(jobs: Iterable[ObserveJob]) -> tuple[str, ...]:
    """List the options of the lenses of jobs that make a long run shorter."""
    sources = dict.fromkeys(part.lens.source for job in jobs for part in job.parts)
    return tuple(filter(None, (LENSES.load(source).savings for source in sources)))


def half_precision_note(model: ModelSpec) -> str:
    """Return a note on a model in half precision; empty for other precisions."""
    if model.dtype not in ("float16", "bfloat16"):
        return ""
    return (
        f"{model.name} is read in {model.dtype}: results depend slightly on batch composition; "
        "compare it only with models read in the same dtype, or give --dtype float32"
    )


def _run_batches(
    session: Session, pools: Iterable[JobBatch], prefetcher: Prefetcher | None, watch: _Watch | None
) -> Iterator[tuple[ObserveJob, JobReport]]:
    """Yield each job with its report; requests to a server are sent by this process."""
    # What prepares ahead and what watches belong to this process, and no other gets them.
    observe = observe_batch
    if prefetcher is not None or watch is not None:
        observe = functools.partial(observe_batch, prefetcher=prefetcher, watch=watch)
    for pool, reports in run_jobs(
        session, observe, pools, stays_here=lambda pool: takes_texts(pool.model), workers_here=1
    ):
        yield from zip(pool.jobs, reports, strict=True)


def _note_lines(lines: Iterable[str], progress: Progress) -> None:
    for line in lines:
        if line:
            progress.note(line)


def has_tables(job: ObserveJob | TrainJob) -> bool:
    """Return whether the tables of a job exist; whether they are intact is checked later."""
    return all((Path(job.root) / part.relative).exists() for part in job.parts)


def _group_by_subject(pools: Iterable[JobBatch]) -> list[list[JobBatch]]:
    """Group neighbouring pools of a model and of its controls."""
    return [list(group) for _, group in itertools.groupby(pools, key=lambda pool: pool.model.full_name)]


def _group_by_place(pools: Sequence[JobBatch], deadline: float) -> list[list[JobBatch]]:
    """Group neighbouring pools that are read in the same place, which take turns before a deadline."""
    if deadline == math.inf:
        return [list(pools)]
    return [list(group) for _, group in itertools.groupby(pools, key=lambda pool: takes_texts(pool.model))]


_LARGE_TOKEN_COST = 5e7
"""Multiplications per token from which a batch takes seconds on a CPU."""


_WORTH_SECONDS, _WORTH_LOADS = 60.0, 20.0
"""A model is tried before its turn if it will read for so long, and so many times longer than it loads."""


class _Trials:
    """Reads a few inputs of each kind of jobs before the first of them, to know how long they will take.

    Args:
        left: The jobs that have to be read.
        profiles: The profile of each job.
        forecast: Gets the times.
        minimum: Inputs of a kind that are worth a trial where the run has no other kind.
    """

    def __init__(
        self,
        left: frozenset[ObserveJob],
        profiles: _JobProfiles,
        forecast: Forecast,
        minimum: int | None = None,
    ) -> None:
        self._left, self._profiles, self._forecast = left, profiles, forecast
        self._timed: set[str] = set()
        kinds = {(job.model, job.corpus, job.language, self._profiles[job].does) for job in left}
        # Of several kinds the first says nothing about the others, however few inputs they have; and of a
        # large model the first batch takes long.
        is_large = any(self._profiles[job].token_cost > _LARGE_TOKEN_COST for job in left)
        self._minimum = minimum if minimum is not None else 0 if len(kinds) > 1 or is_large else WORTH_A_TRIAL
        # A plan reads nothing else, and of many inputs a few are a small part.
        is_costly = minimum is None and not self._minimum
        self._inputs_per_trial_input = _INPUTS_PER_TRIAL_INPUT if is_costly else 1

    def time_large_subjects(self, jobs_by_subject: Sequence[Sequence[ObserveJob]]) -> None:
        """Time a few inputs of each model that will read for long, so that its own speed is known at once.

        The speed of the first model tells roughly how long the others take; what is tried is loaded twice.
        """
        subjects = [
            [job for job in jobs if job in self._left and not takes_texts(job.model)]
            for jobs in jobs_by_subject
        ]
        first, *later = filter(None, subjects) if any(subjects) else [[]]
        if not later:
            return
        begin = time.monotonic()
        _load_model(first[0].model)
        load_seconds = time.monotonic() - begin
        self._time_kinds(first)
        # Only controls are left of the first model: nothing was measured.
        if self._forecast.estimate() is None:
            return
        cost = self._profiles[first[0]].token_cost
        for jobs in later:
            profile = self._profiles[jobs[0]]
            seconds = self._forecast.remaining_seconds(profile.subject)
            if seconds > max(_WORTH_SECONDS, _WORTH_LOADS * load_seconds * (1 + profile.token_cost / cost)):
                self._time_kinds(jobs)

    def time_subject(self, jobs: Sequence[ObserveJob]) -> str:
        """Read a few inputs of each kind of a model's jobs, and give the line on how long they all take."""
        self._time_kinds(jobs)
        return self._forecast.start(self._profiles[jobs[0]].subject)

    def _time_kinds(self, jobs: Sequence[ObserveJob]) -> None:
        subject = self._profiles[jobs[0]].subject
        if subject in self._timed:
            return
        self._timed.add(subject)
        left = [job for job in jobs if job in self._left]
        for group in group_trial_jobs(left, self._profiles.__getitem__, self._minimum):
            job = group[0]
            lengths = self._profiles.lengths(job)
            names = [name for job in group for name in job.item_ids]
            sample = _sample_by_length(names, lengths, max(1, len(names) // self._inputs_per_trial_input))
            item_ids, seconds = time_job(dataclasses.replace(job, item_ids=sample))
            sample_job = dataclasses.replace(job, item_ids=item_ids)
            profile = observation_work(sample_job, lengths, self._profiles[job].token_cost)
            self._forecast.add_trial(profile, seconds)


def _sample_by_length(names: Sequence[str], lengths: Mapping[str, int], maximum: int) -> tuple[str, ...]:
    """Sample inputs evenly over their lengths, since long ones take many times longer."""
    ids = sorted(names, key=lambda name: (lengths[name], name))
    number = min(TRIAL_INPUTS, maximum, len(ids))
    return tuple(ids[(2 * index + 1) * len(ids) // (2 * number)] for index in range(number))
