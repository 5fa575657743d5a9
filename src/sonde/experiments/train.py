"""The training job: keys in, one table out. Runs in this process or in any other with the run's folder."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import polars as pl

from sonde.experiments.labels import label_path
from sonde.experiments.plan import TrainJob, group_prefix, settings_of
from sonde.experiments.tables import scan_inputs
from sonde.lenses import Training, training_lens
from sonde.results.columns import scan_tables
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory


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
    examples = scan_tables([run.root / label_path(job.method.task, prefix)]).join(texts, on="item_id")
    settings = settings_of(job.part.lens)
    training = Training(
        examples=examples.sort("example_id").collect(),
        model=job.model,
        language=job.language,
        folder=run.trained / job.part.key[:16],
        settings=dataclasses.replace(settings, options={**settings.options, **dict(job.method.options)}),
    )
    table = training_lens(job.part.lens.source).train(job.method, training)
    method = job.method
    columns = {"method": method.name, "task": method.task, "seed": method.seed, "variant": method.variant}
    named = table.with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    store.put(job.part.relative, job.part.key, named, {})
    return time.monotonic() - begin
