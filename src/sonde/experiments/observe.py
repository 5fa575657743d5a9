"""The observation job: keys in, tables out. Runs in this process or in any other with the run's folder."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from sonde.alignment import surfaces
from sonde.base.errors import UsageError
from sonde.capture.preparing import prepare
from sonde.capture.requests import Pass, Plain, Prepared, TokenScores, begun
from sonde.corpora import Item
from sonde.experiments.lens_choice import LensChoice, settings_of
from sonde.experiments.plan import ObserveJob, Part, group_prefix
from sonde.experiments.pools import JobPool, on_this_process
from sonde.experiments.preparation import items_of, prepared_of
from sonde.lenses import Captured, reading_lens
from sonde.lenses.engine.lens import ServerOptions
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models.engine.external import serving
from sonde.models.engine.files import behind_a_server, takes_texts
from sonde.results.columns import scan_files
from sonde.store.cache import TableCache
from sonde.store.parts import PartStore
from sonde.store.rundir import label_path

Row = TypeVar("Row")

ITEMS_A_TABLE = 32
"""Items that a lens turns into rows at a time: enough to work on columns, few enough to be held."""

_TRIAL_SECONDS, _FEWEST = 1.0, 4
"""What the inputs of a trial may take together, and how many there are at least: they differ in length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """What a job reports back; small and plain.

    Attributes:
        items: Items observed.
        computed: Whether a forward pass was needed.
        cached: Whether the tables were taken from another run.
        damaged: Parts that were found damaged.
        seconds: What it took, the loading of the model left out.
    """

    items: int
    computed: bool
    cached: bool = False
    damaged: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Tried:
    """What a few inputs took.

    Attributes:
        inputs: How many.
        seconds: What they took together.
    """

    inputs: int
    seconds: float


_loaded: dict[ModelSpec, LoadedModel] = {}
"""The one model that this process holds."""


def _model(spec: ModelSpec) -> LoadedModel:
    """A model, loaded where it is not held; the one before it is let go first, since both may not fit."""
    if spec not in _loaded:
        if _loaded:
            _loaded.clear()
            _vocabulary.cache_clear()
            _free_memory()
        _loaded[spec] = load_model(on_this_process(spec))
    return _loaded[spec]


def _free_memory() -> None:
    """Give back what a model that was let go has taken on its device."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@functools.lru_cache(maxsize=1)
def _vocabulary(spec: ModelSpec) -> tuple[str, ...]:
    loaded = _model(spec)
    # A model may score more ids than its tokenizer holds: vocabularies are padded to round numbers.
    return surfaces(loaded.tokenizer, loaded.capabilities.vocab)


def observe_job(job: ObserveJob) -> JobReport:
    """Observe a job's items and write one table a lens.

    Raises:
        SondeError: The model cannot be loaded or gave something that must not be scored.
        StoreError: A table could not be written.
    """
    (report,) = observe_pool(JobPool(root=job.root, model=job.model, jobs=(job,)))
    return report


def observe_pool(pool: JobPool) -> list[JobReport]:
    """Observe the items of some jobs and write one table a lens and job.

    Which inputs share a batch is decided over all jobs of the pool, whatever of them is there already.

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
    cache = TableCache.off() if behind_a_server(pool.model) else TableCache.of_environment()
    asked = [
        [part for part in job.parts if store.notes(part.relative, part.key) is None] for job in pool.jobs
    ]
    missing = [
        [part for part in parts if cache.take(store, part.relative, part.key) is None] for parts in asked
    ]
    told: dict[int, int] = {}
    pace = 0.0
    if any(missing):
        if not takes_texts(pool.model):
            _model(pool.model)
        begin = time.monotonic()
        observed = _handed_pool if takes_texts(pool.model) else _observed
        # Written beside what comes next, since neither needs the other.
        with ThreadPoolExecutor(1) as writer:
            written: list[Future[None]] = []
            for at, tables in observed(pool, missing):
                written.append(writer.submit(_write, store, cache, missing[at], tables))
                told[at] = len(pool.jobs[at].item_ids)
            for one in written:
                one.result()
        pace = (time.monotonic() - begin) / sum(told.values())
    return [
        JobReport(
            items=len(job.item_ids),
            computed=at in told,
            cached=bool(asked[at]) and at not in told,
            damaged=tuple(store.damaged) if not at else (),
            seconds=told.get(at, 0) * pace,
        )
        for at, job in enumerate(pool.jobs)
    ]


def _write(store: PartStore, cache: TableCache, parts: Sequence[Part], tables: _Tables) -> None:
    frames, notes = tables
    for part in parts:
        store.put(part.relative, part.key, pl.concat(frames[part.lens.name]), notes)
        cache.add(store, part.relative)


_Tables = tuple[dict[str, list[pl.DataFrame]], dict[str, Any]]
"""The tables of each lens, some items each, and the notes on them."""


def _handed_pool(pool: JobPool, missing: Sequence[Sequence[Part]]) -> Iterator[tuple[int, _Tables]]:
    for at, (job, parts) in enumerate(zip(pool.jobs, missing, strict=True)):
        if parts:
            yield at, (_served if behind_a_server(pool.model) else _encoded)(job, parts)


def _observed(pool: JobPool, missing: Sequence[Sequence[Part]]) -> Iterator[tuple[int, _Tables]]:
    """The tables of each job that lacks some."""
    # Imported here, so that what is refused before anything is read does not wait for torch.
    from sonde.capture.attention_backend import how_read

    loaded = _model(pool.model)
    prepared = prepared_of(loaded, pool)
    left = [at for at, parts in enumerate(missing) if parts]
    lenses = {part.lens for parts in missing for part in parts}
    together = dataclasses.replace(
        pool.jobs[0],
        model=pool.model,
        item_ids=tuple(item for job in pool.jobs for item in job.item_ids),
        parts=tuple(part for part in pool.jobs[0].parts if part.lens in lenses),
    )
    held = {item for at, job in enumerate(pool.jobs) if at not in left for item in job.item_ids}
    found = _tables(loaded, together, [*itertools.chain(*prepared)], [pool.jobs[at] for at in left], held)
    for at, (frames, forwards, unread) in zip(left, found, strict=True):
        reading = {**how_read(loaded), **({"unread": unread} if unread else {})}
        yield at, (frames, {"coverage": _coverage(prepared[at]), "forwards": forwards, "reading": reading})


def _served(job: ObserveJob, parts: Sequence[Part]) -> tuple[dict[str, list[pl.DataFrame]], dict[str, Any]]:
    """The tables of each lens and the notes on them, where a server reads the texts.

    Raises:
        UsageError: A lens asks for more than scores of the text alone.
    """
    from sonde.capture.server import score_served

    frames: dict[str, list[pl.DataFrame]] = {}
    notes: dict[str, Any] = {}
    items = items_of(job)
    labels, passes = asked_of(job, parts, [])
    for part in parts:
        lens, settings = reading_lens(part.lens.source), settings_of(part.lens)
        server = serving(job.model.name, ServerOptions.among(dict(part.lens.options)).server)
        told = score_served(server, items, _scores_alone(part.lens.name, passes[part.lens.name]))
        captured = [Captured(prepared, (capture,)) for prepared, capture in told.captured]
        frames[part.lens.name] = [
            lens.observe(few, labels[part.lens.name], settings, told.surfaces)
            for few in list(_batched(iter(captured), ITEMS_A_TABLE)) or [[]]
        ]
        forwards = {"texts sent to a server": len(items)}
        if told.declined:
            forwards["texts that it declined"] = len(told.declined)
        notes = {
            "coverage": _coverage([one.prepared for one in captured]),
            "forwards": forwards,
            "reading": {"scores": told.way, "declined": sorted(set(told.declined.values()))[:3]},
        }
    return frames, notes


def _encoded(job: ObserveJob, parts: Sequence[Part]) -> _Tables:
    """The tables of each lens and the notes on them, where an encoder from outside reads the texts.

    Raises:
        SondeError: A lens asks for more than a vector a text, or the encoder does not give it.
    """
    from sonde.capture.server import read_encoded

    frames: dict[str, list[pl.DataFrame]] = {}
    items = items_of(job)
    labels, passes = asked_of(job, parts, [])
    for part in parts:
        lens, name = reading_lens(part.lens.source), part.lens.name
        read = read_encoded(job.model, items, passes[name], name)
        captured = [Captured(prepared, (capture,)) for prepared, capture in read]
        frames[name] = [lens.observe(captured, labels[name], settings_of(part.lens), ())]
    return frames, {"coverage": {}, "forwards": {"texts encoded": len(items)}, "reading": {}}


def try_job(job: ObserveJob) -> Tried:
    """Observe some of a job's inputs and keep nothing, to know how long the others will take.

    One input is read first and tells how many there is time for; its own time does not count, since what is
    done for the first time is slow.

    Args:
        job: The job; its inputs are those that may be tried, by length.

    Raises:
        SondeError: As for `observe_job`.
    """
    loaded, items = _model(job.model), items_of(job)
    first = _seconds(loaded, job, items[len(items) // 2 :][:1])
    number = min(len(items), max(_FEWEST, int(_TRIAL_SECONDS / max(first, 1e-6))))
    some = [items[(2 * place + 1) * len(items) // (2 * number)] for place in range(number)]
    return Tried(number, _seconds(loaded, job, some))


def _seconds(loaded: LoadedModel, job: ObserveJob, items: Sequence[Item]) -> float:
    begin = time.monotonic()
    for _ in _tables(loaded, job, prepare(loaded, items), [_of(job, items)], frozenset()):
        pass
    return time.monotonic() - begin


def _of(job: ObserveJob, items: Sequence[Item]) -> ObserveJob:
    return dataclasses.replace(job, item_ids=tuple(item.item_id for item in items))


def _tables(
    loaded: LoadedModel,
    together: ObserveJob,
    prepared: Sequence[Prepared],
    jobs: Sequence[ObserveJob],
    held: Set[str],
) -> Iterator[tuple[dict[str, list[pl.DataFrame]], dict[str, int], list[str]]]:
    """Of each job the tables of each lens, some items each, and how many forward passes were run and shared.

    What the model's own code fails on is left out and counted; the last part is what it said, a few times.

    Args:
        loaded: The model.
        together: All items and lenses.
        prepared: The items.
        jobs: The jobs whose items are wanted, in the order of the items.
        held: Ids of the items that are in none of them.
    """
    from sonde.capture.forward import observe_lenses

    parts = together.parts
    how = dataclasses.replace(parts[0].lens.capture.settings, token_budget=together.batch_tokens)
    _, passes = asked_of(together, parts, prepared)
    observed = observe_lenses(loaded, prepared, passes, settings=how, held=held)
    for job in jobs:
        labels = {part.lens.name: _labels(job, part.lens) for part in parts}
        frames: dict[str, list[pl.DataFrame]] = {name: [] for name in passes}
        forwards: Counter[str] = Counter()
        unread: dict[str, None] = {}
        for block in _batched(itertools.islice(observed, len(job.item_ids)), ITEMS_A_TABLE):
            for one in block:
                forwards.update(run=one.inputs, shared=one.shared)
                if one.halved:
                    forwards["batches halved for memory"] += one.halved
                if one.unread:
                    forwards["inputs that the model could not read"] += 1
                    unread[one.unread] = None
            few = [one for one in block if not one.unread]
            for part in parts:
                name = part.lens.name
                captured = [Captured(one.prepared, one.captures[name]) for one in few]
                table = reading_lens(part.lens.source).observe(
                    captured, labels[name], settings_of(part.lens, job.root), _vocabulary(together.model)
                )
                frames[name].append(table)
        yield frames, dict(forwards), [*unread][:3]


def _scores_alone(lens: str, passes: Sequence[Pass]) -> int:
    """How many alternatives a lens wants beside scores of the text as it is: a server gives nothing else."""
    match passes:
        case [Pass(variant=Plain(cut=False, padded=False), requests=(TokenScores(top_k=top_k),))]:
            return top_k
        case _:
            raise UsageError(
                f"lens {lens!r}: a server scores each text as it is, and the options or quirks of this run "
                "ask for more; leave them out, or read a model on this machine"
            )


def asked_of(
    job: ObserveJob, parts: Sequence[Part], prepared: Sequence[Prepared]
) -> tuple[Mapping[str, Mapping[str, pl.DataFrame]], Mapping[str, Sequence[Pass]]]:
    """The labels that each lens joins, by task, and the passes that it asks for."""
    labels = {part.lens.name: _labels(job, part.lens) for part in parts}
    passes = {
        lens.name: begun(
            reading_lens(lens.source).passes(prepared, labels[lens.name], settings_of(lens, job.root)),
            lens.capture.bos,
        )
        for lens in (part.lens for part in parts)
    }
    return labels, passes


def _batched(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while few := list(itertools.islice(rows, size)):
        yield few


def _coverage(prepared: Sequence[Prepared]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in prepared:
        counts.update(dataclasses.asdict(one.alignment.coverage))
    return dict(counts)


def _labels(job: ObserveJob, lens: LensChoice) -> dict[str, pl.DataFrame]:
    """The label rows of a job's items, by task."""
    # A series, since a list of Python's own is looked through anew for every row.
    prefix, ids = group_prefix(job.corpus, job.language), pl.Series(job.item_ids).implode()
    root, of = Path(job.root), lens.labels
    tables = {task: scan_files([root / label_path(task, prefix, of)]) for task in lens.tasks}
    return {task: table.filter(pl.col("item_id").is_in(ids)).collect() for task, table in tables.items()}
