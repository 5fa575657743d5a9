"""Jobs that are forwarded together on an accelerator, and the device of each process.

A job's 64 inputs are of all lengths, and a batch that keeps an accelerator busy holds more than that: padded
to its longest row, most of it would be padding. So some jobs are read together, and each batch takes inputs
of about one length from all of them. Which jobs belong together follows from plan and size of the model.
"""

from __future__ import annotations

import dataclasses
import itertools
import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass

from sonde.experiments.plan import ObserveJob
from sonde.models import ModelSpec, describe
from sonde.models.engine.files import takes_texts

_MOST_JOBS = 16
"""Jobs of one pool: 1,024 functions give batches of 13,000 tokens, 0.87 of them real."""

_STATES = 600_000
"""Values of a model's states a subword, times jobs of a pool: a large model is busy with smaller batches, and
what its inputs gave is held until the pool is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPool:
    """Jobs of one model, group and set of lenses that are forwarded together; each writes its own tables.

    Attributes:
        root: The folder of the run, as this process finds it.
        model: What to load.
        jobs: The jobs.
    """

    root: str
    model: ModelSpec
    jobs: tuple[ObserveJob, ...]


def pools(jobs: Sequence[ObserveJob]) -> list[JobPool]:
    """All jobs in pools, in the order of their first jobs.

    Args:
        jobs: The jobs as they were planned, with the device settled.
    """
    alike: dict[tuple[object, ...], list[ObserveJob]] = {}
    for job in jobs:
        lenses = tuple(part.lens for part in job.parts)
        alike.setdefault((job.model, job.corpus, job.language, lenses), []).append(job)
    found: list[JobPool] = []
    for same in alike.values():
        most = _most(same[0].model)
        number = -(-len(same) // most)
        # Evenly, since a pool of a few jobs has little to choose from.
        ends = [len(same) * at // number for at in range(number + 1)]
        for begin, end in itertools.pairwise(ends):
            found.append(JobPool(root=same[0].root, model=same[0].model, jobs=tuple(same[begin:end])))
    return found


def _most(model: ModelSpec) -> int:
    """How many jobs are read together."""
    if model.device == "cpu" or takes_texts(model):
        return 1
    size = describe(model)
    return max(2, min(_MOST_JOBS, _STATES // max(1, size.layers * size.d_model)))


def on_this_process(model: ModelSpec) -> ModelSpec:
    """The model on the device of this process: those that an executor starts in a row take turns."""
    import torch

    if model.device != "cuda" or multiprocessing.parent_process() is None:
        return model
    number = torch.cuda.device_count()
    rank = (multiprocessing.current_process()._identity or (1,))[0] - 1
    return dataclasses.replace(model, device=f"cuda:{rank % number}") if number > 1 else model
