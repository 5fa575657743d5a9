"""The stage that trains, and its job: keys in, one table out, in any process with the run's folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from sonde.executors import is_on_cluster
from sonde.experiments.cost import Forecast, put_trials_first, training_work
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.observe import has_tables, run_jobs
from sonde.experiments.plan import TrainJob
from sonde.experiments.progress import Session
from sonde.lenses import Training, load_training_lens
from sonde.lenses.engine.item_tables import scan_inputs
from sonde.models.engine.files import uses_server
from sonde.results.schema import scan_files
from sonde.store.parts import PartStore
from sonde.store.run_folder import RunDirectory, group_prefix, label_path


def train_jobs(session: Session, jobs: Sequence[TrainJob]) -> None:
    """Run all trainings, and estimate their time once the first of a kind is done."""
    execution, progress, outcome = session.execution, session.progress, session.outcome
    outcome.trainings += tuple(jobs)
    jobs = put_trials_first(jobs, training_work)
    forecast = Forecast("training", "run", [training_work(job) for job in jobs], execution.workers)
    trained_before = [job for job in jobs if has_tables(job)]
    for job in trained_before:
        forecast.done(training_work(job), None)
    for line in forecast.describe_plan():
        progress.note(line)
    with (
        outcome.measure_stage("train"),
        progress.stage("training", len(jobs) - len(trained_before)) as advance,
    ):
        on_cluster = is_on_cluster(execution.executor)
        for job, seconds in run_jobs(
            session,
            train_job,
            jobs,
            stays_here=lambda job: on_cluster and _needs_this_machine(job),
            workers_here=execution.workers,
        ):
            outcome.trained += seconds is not None
            if seconds is not None and (line := forecast.done(training_work(job), seconds)):
                progress.note(line)
            if job not in trained_before:
                advance(remaining=forecast.estimate())


def _needs_this_machine(job: TrainJob) -> bool:
    """Return whether a training needs a corpus or key of this machine."""
    corpus_options = load_training_lens(job.part.lens.source).corpus_options
    return uses_server(job.model) or any(
        value for option, value in job.method.options if option in corpus_options
    )


def train_job(job: TrainJob) -> float | None:
    """Train a method and write what it answers, unless that is there.

    Returns:
        The seconds that it took; None where nothing had to be trained.

    Raises:
        SondeError: The method cannot be trained, or its table could not be written.
    """
    store = PartStore(Path(job.root))
    if store.notes(job.part.relative, job.part.key) is not None:
        return None
    begin = time.monotonic()
    run = RunDirectory(Path(job.root))
    prefix = group_prefix(job.corpus, job.language)
    texts = scan_inputs(run, job.corpus, job.language).select("item_id", "text")
    lens = job.part.lens
    path = run.root / label_path(job.method.task, prefix, lens.labels)
    examples = scan_files([path]).join(texts, on="item_id")
    settings = get_lens_settings(lens.observation_lens)
    training = Training(
        examples=examples.sort("example_id").collect(),
        model=job.model,
        language=job.language,
        folder=run.trained / job.part.key[:16],
        settings=dataclasses.replace(settings, options={**settings.options, **dict(job.method.options)}),
        unkeyed={name: value for name, value in lens.options if name in lens.scoring},
    )
    table = load_training_lens(job.part.lens.source).train(job.method, training)
    method = job.method
    columns = {"method": method.name, "task": method.task, "seed": method.seed, "variant": method.variant}
    labelled_table = table.with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    store.put(
        job.part.relative,
        job.part.key,
        labelled_table,
        {"forwards": training.counts} if training.counts else {},
    )
    return time.monotonic() - begin
