"""The observation job: keys in, tables out. Runs in this process or in any other with the run's folder."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from sonde.alignment import surfaces
from sonde.base.errors import UsageError
from sonde.capture.preparing import prepare
from sonde.capture.requests import Pass, Plain, Prepared, TokenScores, begun
from sonde.corpora import Item
from sonde.experiments.labels import label_path
from sonde.experiments.plan import LensChoice, ObserveJob, Part, group_prefix, settings_of
from sonde.experiments.tables import items_from, scan_inputs
from sonde.lenses import Captured, reading_lens
from sonde.lenses._server_options import ServerOptions
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models._resolve import behind_a_server
from sonde.models._server import serving
from sonde.results.columns import scan_tables
from sonde.store.cache import TableCache
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory

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


@functools.lru_cache(maxsize=1)
def _model(spec: ModelSpec) -> LoadedModel:
    return load_model(spec)


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
    store = PartStore(Path(job.root))
    missing = [part for part in job.parts if store.notes(part.relative, part.key) is None]
    if not missing:
        return JobReport(items=len(job.item_ids), computed=False)
    # A server does not say which weights it runs: what it said to another run may be of others.
    cache = TableCache.off() if behind_a_server(job.model) else TableCache.of_environment()
    missing = [part for part in missing if cache.take(store, part.relative, part.key) is None]
    if not missing:
        return JobReport(items=len(job.item_ids), computed=False, cached=True, damaged=tuple(store.damaged))
    if behind_a_server(job.model):
        begin = time.monotonic()
        frames, notes = _served(job, missing)
    else:
        # Imported here, so that what is refused before anything is read does not wait for torch.
        from sonde.capture.trial import how_read

        loaded = _model(job.model)
        begin = time.monotonic()
        prepared = prepare(loaded, items_of(job))
        frames, forwards = _tables(loaded, job, missing, prepared)
        notes = {"coverage": _coverage(prepared), "forwards": forwards, "reading": how_read(loaded)}
    for part in missing:
        store.put(part.relative, part.key, pl.concat(frames[part.lens.name]), notes)
        cache.add(store, part.relative)
    seconds = time.monotonic() - begin
    return JobReport(items=len(job.item_ids), computed=True, damaged=tuple(store.damaged), seconds=seconds)


def _served(job: ObserveJob, parts: Sequence[Part]) -> tuple[dict[str, list[pl.DataFrame]], dict[str, Any]]:
    """The tables of each lens and the notes on them, where a server reads the texts.

    Raises:
        UsageError: A lens asks for more than scores of the text alone.
    """
    from sonde.capture.served import score_served

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
    _tables(loaded, job, job.parts, prepare(loaded, items))
    return time.monotonic() - begin


def _tables(
    loaded: LoadedModel, job: ObserveJob, parts: Sequence[Part], prepared: Sequence[Prepared]
) -> tuple[dict[str, list[pl.DataFrame]], dict[str, int]]:
    """The tables of each lens, some items each, and how many forward passes were run and shared."""
    from sonde.capture.forward import observe_lenses

    how = dataclasses.replace(parts[0].lens.capture.settings, token_budget=job.batch_tokens)
    labels, passes = asked_of(job, parts, prepared)
    frames: dict[str, list[pl.DataFrame]] = {name: [] for name in passes}
    forwards: Counter[str] = Counter()
    for few in _batched(observe_lenses(loaded, prepared, passes, settings=how), ITEMS_A_TABLE):
        for one in few:
            forwards.update(run=one.inputs, shared=one.shared)
            if one.halved:
                forwards["batches halved for memory"] += one.halved
        for part in parts:
            name = part.lens.name
            captured = [Captured(one.prepared, one.captures[name]) for one in few]
            table = reading_lens(part.lens.source).observe(
                captured, labels[name], settings_of(part.lens), _vocabulary(job.model)
            )
            frames[name].append(table)
    return frames, dict(forwards)


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
            reading_lens(lens.source).passes(prepared, labels[lens.name], settings_of(lens)), lens.capture.bos
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


def items_of(job: ObserveJob) -> list[Item]:
    """The items of a job, in its order."""
    wanted = pl.LazyFrame({"item_id": job.item_ids, "order": range(len(job.item_ids))})
    held = scan_inputs(RunDirectory(Path(job.root)), job.corpus, job.language)
    return items_from(held.join(wanted, on="item_id").sort("order").collect())


def _labels(job: ObserveJob, lens: LensChoice) -> dict[str, pl.DataFrame]:
    """The label rows of a job's items, by task."""
    # A series, since a list of Python's own is looked through anew for every row.
    prefix, ids = group_prefix(job.corpus, job.language), pl.Series(job.item_ids).implode()
    tables = {task: scan_tables([Path(job.root) / label_path(task, prefix)]) for task in lens.tasks}
    return {task: table.filter(pl.col("item_id").is_in(ids)).collect() for task, table in tables.items()}
