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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from sonde.alignment import get_surfaces
from sonde.base.errors import UsageError
from sonde.base.fingerprint import hash_text
from sonde.base.process import read_clock, safe_path_environment
from sonde.base.progress import Progress
from sonde.capture.requests import Pass, Plain, Prepared, TokenScores, prepare, prepare_items, with_bos
from sonde.corpora import Item
from sonde.executors import EXECUTORS, is_on_cluster
from sonde.executors.local import LocalExecutor
from sonde.experiments.cost import (
    WORTH_A_TRIAL,
    Forecast,
    group_trial_jobs,
    observation_work,
    put_trials_first,
)
from sonde.experiments.experiment import Execution, LensChoice, get_lens_settings
from sonde.experiments.plan import JobBatch, ObserveJob, Part, TrainJob, assign_device, batch_jobs
from sonde.experiments.progress import Session
from sonde.lenses import CapturedItem, load_reading_lens
from sonde.lenses.engine.item_tables import read_inputs, scan_inputs
from sonde.lenses.engine.lens import ServerOptions
from sonde.models import LoadedModel, ModelSpec, load_model, load_tokenizer, point_to_folder
from sonde.models.engine.external import get_server
from sonde.models.engine.files import takes_texts, uses_server
from sonde.results.schema import scan_files
from sonde.store.parts import PartStore, TableCache
from sonde.store.run_folder import RunDirectory, group_prefix, label_path

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
        seconds: What it took, the loading of the model left out.
        late: Whether the time was up before its turn, so that tables are missing.
    """

    computed: bool
    cached: bool = False
    late: bool = False
    damaged: tuple[str, ...] = ()
    seconds: float = 0.0


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


def observe_batch(pool: JobBatch, prefetcher: Prefetcher | None = None) -> list[JobReport]:
    """Observe the items of some jobs and write one table a lens and job.

    Which inputs share a batch is decided over all jobs of the pool, whatever of them is there already.

    Args:
        pool: The jobs.
        prefetcher: Prepares their items in other processes.

    Returns:
        A report a job, in their order.

    Raises:
        SondeError: The model cannot be loaded or gave something that must not be scored.
        StoreError: A table could not be written.
    """
    # An executor may have given the folder of the run another path than the jobs were planned with.
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
    pace = 0.0
    is_late = any(missing) and read_clock() > pool.deadline
    if any(missing) and not is_late:
        if not takes_texts(pool.model):
            _load_model(pool.model)
        begin = time.monotonic()
        if takes_texts(pool.model):
            tables_by_job = _observe_externally(pool, missing)
        else:
            tables_by_job = _observe_tables(pool, missing, prefetcher)
        # Written beside what comes next, since neither needs the other.
        with ThreadPoolExecutor(1) as writer:
            writes: list[Future[None]] = []
            for index, tables in tables_by_job:
                writes.append(writer.submit(_write_parts, store, cache, missing[index], tables))
                item_counts[index] = len(pool.jobs[index].item_ids)
            for writing in writes:
                writing.result()
        pace = (time.monotonic() - begin) / sum(item_counts.values())
    return [
        JobReport(
            computed=index in item_counts,
            cached=bool(stale_parts[index]) and not missing[index],
            late=is_late and bool(missing[index]),
            damaged=tuple(store.damaged) if not index else (),
            seconds=item_counts.get(index, 0) * pace,
        )
        for index in range(len(pool.jobs))
    ]


def _write_parts(store: PartStore, cache: TableCache, parts: Sequence[Part], tables: _Tables) -> None:
    frames, notes = tables
    for part in parts:
        store.put(part.relative, part.key, pl.concat(frames[part.lens.name]), notes)
        cache.add(store, part.relative)


_Tables = tuple[dict[str, list[pl.DataFrame]], dict[str, Any]]
"""The tables of each lens, some items each, and the notes on them."""


def _observe_externally(pool: JobBatch, missing: Sequence[Sequence[Part]]) -> Iterator[tuple[int, _Tables]]:
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
            captures, surfaces, notes = read_texts(job, part.lens, items, passes[name])
            frames[name] = [
                load_reading_lens(part.lens.source).observe(batch, labels[name], settings, surfaces)
                for batch in list(_batch_rows(iter(captures), ITEMS_A_TABLE)) or [[]]
            ]
        yield index, (frames, notes)


_TextCaptures = tuple[list[CapturedItem], Sequence[str], dict[str, Any]]
"""What was read of some texts, the surfaces of the ids in it, and the notes on it."""


def _score_by_server(
    job: ObserveJob, lens: LensChoice, items: Sequence[Item], passes: Sequence[Pass]
) -> _TextCaptures:
    """Score texts by a server.

    Raises:
        UsageError: A lens asks for more than scores of the text alone.
    """
    from sonde.capture.server import score_by_server

    server = get_server(job.model.name, ServerOptions.among(dict(lens.options)).server)
    reply = score_by_server(server, items, _count_alternatives(lens.name, passes))
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
    job: ObserveJob, lens: LensChoice, items: Sequence[Item], passes: Sequence[Pass]
) -> _TextCaptures:
    """Read texts by an external encoder.

    Raises:
        SondeError: A lens asks for more than a vector a text, or the encoder does not give it.
    """
    from sonde.capture.server import encode_items

    read = encode_items(job.model, items, passes, lens.name)
    captures = [CapturedItem(prepared_item, (capture,)) for prepared_item, capture in read]
    return captures, (), {"coverage": {}, "forwards": {"texts encoded": len(items)}, "reading": {}}


def _observe_tables(
    pool: JobBatch, missing: Sequence[Sequence[Part]], prefetcher: Prefetcher | None
) -> Iterator[tuple[int, _Tables]]:
    """Yield the tables of each job that lacks some."""
    # Imported here, so that what is refused before anything is read does not wait for torch.
    from sonde.capture.attention_backend import describe_backend

    model = _load_model(pool.model)
    if prefetcher is not None and pool in prefetcher:
        inputs = prefetcher.take(pool)
    else:
        inputs = [prepare_items(model.tokenizer, read_job_items(job)) for job in pool.jobs]
    left = [index for index, parts in enumerate(missing) if parts]
    lenses = {part.lens for parts in missing for part in parts}
    merged_job = dataclasses.replace(
        pool.jobs[0],
        model=pool.model,
        item_ids=tuple(item for job in pool.jobs for item in job.item_ids),
        parts=tuple(part for part in pool.jobs[0].parts if part.lens in lenses),
    )
    other_ids = {item for index, job in enumerate(pool.jobs) if index not in left for item in job.item_ids}
    job_tables = _build_tables(
        model, merged_job, [*itertools.chain(*inputs)], [pool.jobs[index] for index in left], other_ids
    )
    for index, (frames, forwards, unread) in zip(left, job_tables, strict=True):
        precision = {**describe_backend(model), **({"unread": unread} if unread else {})}
        yield (
            index,
            (frames, {"coverage": _sum_coverage(inputs[index]), "forwards": forwards, "reading": precision}),
        )


def time_job(job: ObserveJob) -> tuple[int, float]:
    """Observe some of a job's inputs and keep nothing, to know how long the others will take.

    One input is read first and tells how many there is time for; its own time does not count, since what is
    done for the first time is slow.

    Args:
        job: The job; its inputs are those that may be tried, by length.

    Returns:
        How many inputs were read, and the seconds that they took together.

    Raises:
        SondeError: As for `observe_batch`.
    """
    model, items = _load_model(job.model), read_job_items(job)
    first = _time_items(model, job, items[len(items) // 2 :][:1])
    number = min(len(items), max(_MINIMUM_INPUTS, int(_TRIAL_SECONDS / max(first, 1e-6))))
    sample = [items[(2 * index + 1) * len(items) // (2 * number)] for index in range(number)]
    return number, _time_items(model, job, sample)


def _time_items(model: LoadedModel, job: ObserveJob, items: Sequence[Item]) -> float:
    begin = time.monotonic()
    sample_job = dataclasses.replace(job, item_ids=tuple(item.item_id for item in items))
    for _ in _build_tables(model, job, prepare(model, items), [sample_job], frozenset()):
        pass
    return time.monotonic() - begin


def _build_tables(
    model: LoadedModel,
    merged_job: ObserveJob,
    inputs: Sequence[Prepared],
    jobs: Sequence[ObserveJob],
    other_ids: Set[str],
) -> Iterator[tuple[dict[str, list[pl.DataFrame]], dict[str, int], list[str]]]:
    """Yield the tables of each job by lens, with the counts of forward passes.

    What the model's own code fails on is left out and counted; the last part is what it said, a few times.

    Args:
        model: The model.
        merged_job: All items and lenses.
        inputs: The items.
        jobs: The jobs whose items are wanted, in the order of the items.
        other_ids: Ids of the items that are in none of them.
    """
    from sonde.capture.forward import observe_lenses

    parts = merged_job.parts
    settings = dataclasses.replace(parts[0].lens.capture.settings, token_budget=merged_job.batch_tokens)
    _, passes = build_requests(merged_job, parts, inputs)
    observations = observe_lenses(model, inputs, passes, settings=settings, held=other_ids)
    for job in jobs:
        labels = {part.lens.name: _read_labels(job, part.lens) for part in parts}
        frames: dict[str, list[pl.DataFrame]] = {name: [] for name in passes}
        forwards: Counter[str] = Counter()
        unread: dict[str, None] = {}
        for block in _batch_rows(itertools.islice(observations, len(job.item_ids)), ITEMS_A_TABLE):
            for observation in block:
                forwards.update(run=observation.inputs, shared=observation.shared)
                if observation.halved:
                    forwards["batches halved for memory"] += observation.halved
                if observation.unread:
                    forwards["inputs that the model could not read"] += 1
                    unread[observation.unread] = None
            readable_items = [observation for observation in block if not observation.unread]
            for part in parts:
                name = part.lens.name
                captures = [
                    CapturedItem(observation.prepared, observation.captures[name])
                    for observation in readable_items
                ]
                table = load_reading_lens(part.lens.source).observe(
                    captures,
                    labels[name],
                    get_lens_settings(part.lens, job.root),
                    _list_surfaces(merged_job.model),
                )
                frames[name].append(table)
        yield frames, dict(forwards), [*unread][:3]


def _count_alternatives(lens: str, passes: Sequence[Pass]) -> int:
    """Return how many alternatives a lens requests; a server gives nothing else beside scores."""
    match passes:
        case [Pass(variant=Plain(cut=False, padded=False), requests=(TokenScores(top_k=top_k),))]:
            return top_k
        case _:
            raise UsageError(
                f"lens {lens!r}: a server scores each text as it is, and the options or quirks of this run "
                "ask for more; leave them out, or read a model on this machine"
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
    left = frozenset(job for job in jobs if not has_tables(job))
    pools = batch_jobs(jobs, deadline, frozenset(jobs) - left)
    if deadline == math.inf:
        pool_by_job = {job: pool for pool in pools for job in pool.jobs}
        jobs = put_trials_first(jobs, observation_work)
        pools = list(dict.fromkeys(pool_by_job[job] for job in jobs))
    forecast = Forecast("observing", "input", [observation_work(job) for job in jobs], execution.workers)
    for job in frozenset(jobs) - left:
        forecast.done(observation_work(job), None)
    _note_lines(sorted({half_precision_note(job.model) for job in left}), progress)
    single_process = execution.workers <= 1 and not is_on_cluster(execution.executor)
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
        # One model after the other, so that a trial loads none that is not needed at once.
        for subject_pools in _group_by_subject(pools) if single_process else _group_by_place(pools, deadline):
            # What is sent to a server costs tokens, and its first job tells as much.
            if has_forecast and single_process and not takes_texts(subject_pools[0].model):
                subject_jobs = [job for pool in subject_pools for job in pool.jobs]
                _note_lines([_time_kinds(subject_jobs, left, forecast, WORTH_A_TRIAL)], progress)
            for job, report in _run_batches(session, subject_pools, prefetcher):
                if report.late:
                    late.append(job)
                    continue
                if report.computed:
                    outcome.observed += len(job.item_ids)
                    line = forecast.done(observation_work(job), report.seconds)
                    _note_lines([line] if has_forecast else [], progress)
                else:
                    outcome.reused += len(job.item_ids)
                    outcome.cached += len(job.item_ids) if report.cached else 0
                outcome.damaged += report.damaged
                advance(len(job.item_ids))
    TableCache.from_environment().trim()
    return late


def _with_batch_size(jobs: Sequence[ObserveJob], execution: Execution) -> list[ObserveJob]:
    return [dataclasses.replace(job, batch_tokens=execution.batch_tokens or 0) for job in jobs]


def time_models(jobs: Sequence[ObserveJob], execution: Execution) -> tuple[list[str], float]:
    """Read a few inputs of each kind of jobs, and estimate the time of all; nothing of it is kept.

    Args:
        jobs: The jobs of a run; those of models that are handed texts are left out, as a run does.
        execution: How the run would read them.

    Returns:
        A line for each model, as a run says it, and the seconds of all jobs.
    """
    jobs = [job for job in _with_batch_size(jobs, execution) if not takes_texts(job.model)]
    forecast = Forecast("observing", "input", [observation_work(job) for job in jobs], execution.workers)
    lines = [
        _time_kinds([job for pool in subject_pools for job in pool.jobs], frozenset(jobs), forecast, 0)
        for subject_pools in _group_by_subject(batch_jobs(jobs))
    ]
    return lines, forecast.remaining_seconds()


def half_precision_note(model: ModelSpec) -> str:
    """Return a note on a model in half precision; empty for other precisions."""
    if model.dtype not in ("float16", "bfloat16"):
        return ""
    return (
        f"{model.name} is read in {model.dtype}: its states are rounded to few digits, and otherwise in "
        "another batch; compare it with models read alike, or give --dtype float32"
    )


def _run_batches(
    session: Session, pools: Iterable[JobBatch], prefetcher: Prefetcher | None
) -> Iterator[tuple[ObserveJob, JobReport]]:
    """Yield each job with its report; requests to a server are sent by this process."""
    # What prepares ahead belongs to this process, and no other gets it.
    observe = observe_batch if prefetcher is None else functools.partial(observe_batch, prefetcher=prefetcher)
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


def _time_kinds(
    jobs: Sequence[ObserveJob],
    left: frozenset[ObserveJob],
    forecast: Forecast,
    minimum: int,
) -> str:
    """Read a few inputs of each kind of a model's jobs, and give the line on how long they all take."""
    for group in group_trial_jobs([job for job in jobs if job in left], observation_work, minimum):
        count, seconds = time_job(dataclasses.replace(group[0], item_ids=_sample_by_length(group)))
        forecast.add_trial(observation_work(group[0]), count, seconds)
    return forecast.start(observation_work(jobs[0]).subject)


def _sample_by_length(jobs: Sequence[ObserveJob]) -> tuple[str, ...]:
    """Sample inputs of some jobs evenly over their lengths, since long ones take many times longer."""
    first, names = jobs[0], [name for job in jobs for name in job.item_ids]
    rows = scan_inputs(RunDirectory(Path(first.root)), first.corpus, first.language)
    is_candidate = pl.col("item_id").is_in(pl.Series(names, dtype=pl.String).implode())
    ids = (
        rows.filter(is_candidate)
        .select("characters", "item_id")
        .collect()
        .sort("characters", "item_id")["item_id"]
    )
    number = min(TRIAL_INPUTS, len(ids))
    return tuple(ids[(2 * index + 1) * len(ids) // (2 * number)] for index in range(number))
