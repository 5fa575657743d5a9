"""Jobs as the executor of a run gets them: other machines find a model in the folder of the run alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sonde.executors import EXECUTORS, on_cluster
from sonde.experiments._outcome import Session
from sonde.experiments.plan import TrainJob
from sonde.experiments.pools import JobPool
from sonde.models import stored

Handed = TypeVar("Handed", JobPool, TrainJob)
Result = TypeVar("Result")


def carried_out(
    session: Session, function: Callable[[Handed], Result], jobs: Sequence[Handed]
) -> Iterator[tuple[Handed, Result]]:
    """Each job with its result, in whatever order they finish.

    A cluster may have other files at the path of a local checkpoint and another revision of a hub name, so
    jobs name the model there by what it holds. The keys of what they write are those that they have here.

    Args:
        session: The run.
        function: A top-level function, importable in another process.
        jobs: The jobs as they were planned.

    Raises:
        StoreError: A checkpoint cannot be copied into the folder of the run.
        SondeError: A job failed; what was finished is kept.
    """
    execution = session.execution
    sent = {job: job for job in jobs}
    if on_cluster(execution.executor):
        folder = session.outcome.directory.models.absolute()
        models = {spec: stored(spec, folder) for spec in {job.model for job in jobs}}
        sent = {dataclasses.replace(job, model=models[job.model]): job for job in jobs}
    executor = EXECUTORS.load(execution.executor)
    for job, result in executor.map(function, list(sent), workers=execution.workers):
        yield sent[job], result
