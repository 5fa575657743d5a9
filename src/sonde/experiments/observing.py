"""The stage that reads inputs with models: tried on a few of each kind, said how long, then done."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from sonde.executors import on_cluster
from sonde.executors.local import LocalExecutor
from sonde.experiments._forecast import Forecast, measured_first, observing, worth_trying
from sonde.experiments._outcome import Session
from sonde.experiments._progress import Progress
from sonde.experiments.handing import carried_out
from sonde.experiments.observe import JobReport, observe_pool, try_job
from sonde.experiments.plan import ObserveJob, TrainJob
from sonde.experiments.pools import JobPool, pools
from sonde.experiments.preparation import preparing_ahead
from sonde.experiments.tables import scan_inputs
from sonde.models import ModelSpec
from sonde.models.engine.files import takes_texts
from sonde.store.cache import TableCache
from sonde.store.rundir import RunDirectory

TRIAL_INPUTS = 32
"""Inputs that a trial reads at most: fewer than a job has, so that it ends before the first one would."""


def observe(session: Session, jobs: Sequence[ObserveJob], timed: str = "observe") -> None:
    """Carry all observations out, and say before those of each model how long they will take.

    A few inputs are read for that, and what comes of them is thrown away: which inputs share a batch stays as
    it is, and so does every number. Where several processes or another machine read there is no trial, since
    one process here says little about how fast they are; then the first jobs tell.
    """
    execution, progress, outcome = session.execution, session.progress, session.outcome
    jobs = [dataclasses.replace(job, batch_tokens=execution.batch_tokens or 0) for job in jobs]
    together = {job: pool for pool in pools(jobs) for job in pool.jobs}
    jobs = measured_first(jobs, observing)
    forecast = Forecast("observing", "input", [observing(job) for job in jobs], execution.workers)
    left = [job for job in jobs if not is_there(job)]
    for job in frozenset(jobs).difference(left):
        forecast.done(observing(job), None)
    for line in sorted({half_precision(job.model) for job in left}):
        _say([line], progress)
    alone = execution.workers <= 1 and not on_cluster(execution.executor)
    if not alone:
        _say(forecast.planned(), progress)
    coming = list(dict.fromkeys(together[job] for job in jobs if job in left))
    with (
        outcome.timed(timed),
        preparing_ahead(coming, execution.light_workers - 1 if alone else 0),
        progress.stage("observing", sum(len(job.item_ids) for job in jobs)) as advance,
    ):
        # One model after the other, so that a trial loads none that is not needed at once.
        for some in _by_subject(jobs) if alone else [jobs]:
            # What is sent to a server costs tokens, and its first job tells as much.
            if alone and not takes_texts(some[0].model):
                _say([_tried(some, frozenset(left), forecast)], progress)
            for job, observed in _carried_out(session, list(dict.fromkeys(together[job] for job in some))):
                if observed.computed:
                    outcome.observed += len(job.item_ids)
                    _say([forecast.done(observing(job), observed.seconds)], progress)
                else:
                    outcome.reused += len(job.item_ids)
                    outcome.cached += len(job.item_ids) if observed.cached else 0
                outcome.damaged += observed.damaged
                advance(len(job.item_ids))
    TableCache.of_environment().trim()


def half_precision(model: ModelSpec) -> str:
    """What to expect of a model in half precision; empty where it is read in another."""
    if model.dtype not in ("float16", "bfloat16"):
        return ""
    return (
        f"{model.name} is read in {model.dtype}: its states are rounded to few digits, and otherwise in "
        "another batch; compare it with models read alike, or give --dtype float32"
    )


def _carried_out(session: Session, some: Sequence[JobPool]) -> Iterator[tuple[ObserveJob, JobReport]]:
    """Each job with its report; a server gets its requests from this process, which counts what they cost."""
    served = [pool for pool in some if takes_texts(pool.model)]
    here = [pool for pool in some if pool not in served]
    for pool, reports in itertools.chain(
        carried_out(session, observe_pool, here), LocalExecutor().map(observe_pool, served, workers=1)
    ):
        yield from zip(pool.jobs, reports, strict=True)


def _say(lines: Iterable[str], progress: Progress) -> None:
    for line in lines:
        if line:
            progress.note(line)


def is_there(job: ObserveJob | TrainJob) -> bool:
    """Whether a job's tables lie in the folder; whether they are whole is seen when it is their turn."""
    return all((Path(job.root) / part.relative).exists() for part in job.parts)


def _by_subject(jobs: Sequence[ObserveJob]) -> list[list[ObserveJob]]:
    found: dict[str, list[ObserveJob]] = {}
    for job in jobs:
        found.setdefault(observing(job).subject, []).append(job)
    return list(found.values())


def _tried(jobs: Sequence[ObserveJob], left: frozenset[ObserveJob], forecast: Forecast) -> str:
    """Read a few inputs of each kind of a model's jobs, and give the line on how long they all take."""
    for alike in worth_trying([job for job in jobs if job in left], observing):
        tried = try_job(dataclasses.replace(alike[0], item_ids=_spread_by_length(alike)))
        forecast.tried(observing(alike[0]), tried.inputs, tried.seconds)
    return forecast.begun(observing(jobs[0]).subject)


def _spread_by_length(jobs: Sequence[ObserveJob]) -> tuple[str, ...]:
    """Inputs of some jobs, evenly over their lengths: a long one takes many times what a short one does."""
    first, names = jobs[0], [name for job in jobs for name in job.item_ids]
    held = scan_inputs(RunDirectory(Path(first.root)), first.corpus, first.language)
    among = pl.col("item_id").is_in(pl.Series(names, dtype=pl.String).implode())
    ids = (
        held.filter(among).select("characters", "item_id").collect().sort("characters", "item_id")["item_id"]
    )
    number = min(TRIAL_INPUTS, len(ids))
    return tuple(ids[(2 * place + 1) * len(ids) // (2 * number)] for place in range(number))
