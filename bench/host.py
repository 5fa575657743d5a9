"""What Python costs an item beside the forward pass, and how many kernels a batch launches.

An accelerator waits for this. The model has the layers and heads of a 125M encoder and is as narrow as they
allow, so that its forward pass costs little. Times are CPU seconds of one thread, less those of the bare
forward pass of the same inputs in the same round. Kernels run on the processor here, so what a lens has
computed on the device (means of states, ranks of words) is in them too: they are upper bounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from bench._launches import count_launches
from bench._paired import batched, forget_trees, forward
from bench._shapes import Shape, build_model, capture_all, read_ids
from sonde.capture import word_attention
from sonde.capture.requests import Prepared, prepare
from sonde.capture.settings import CaptureSettings
from sonde.capture.word_attention import SegmentSums
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import observe_batch, read_job_items
from sonde.experiments.plan import ObserveJob, batch_jobs
from sonde.experiments.run import run as carry_out
from sonde.models import load_model

_ITEMS, _ROUNDS, _BUDGET = 128, 5, 2048
_SHAPE = Shape("narrow encoder", ("probe", "attention"), 12, 12, 12, 12, decoder=False)
_TARGETS = {"probe": (0.15, 0.4), "attention": (0.5, 1.0)}
"""Of capture, and of the job without preparation, which other processes can do ahead."""

_PROBE_OPTIONS = {"pooling": "mean", "probe": "linear", "controls": False, "curves": False}


def run() -> Iterator[dict[str, Any]]:
    """Measure each lens in turn."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = str(build_model(_SHAPE, Path(folder), torch.float32))
            for lens in _SHAPE.lenses:
                yield from _measure_lens(lens, model, Path(folder) / lens)
    finally:
        torch.set_num_threads(threads)


def _measure_lens(lens: str, model: str, folder: Path) -> Iterator[dict[str, Any]]:
    experiment = Experiment(
        models=(model,),
        lenses=(lens,),
        tasks=("csc",) if lens == "probe" else (),
        selection=Selection(limit=_ITEMS, languages=("python",), per_cluster=0),
        options={"probe": _PROBE_OPTIONS} if lens == "probe" else {},
    )
    outcome = carry_out(experiment, Execution(output=folder, batch_tokens=_BUDGET))
    # The model itself; its copies with random weights are read in the same way.
    yield from _measure_jobs(lens, [job for job in outcome.jobs if job.model == outcome.jobs[0].model])


def _measure_jobs(lens: str, jobs: Sequence[ObserveJob]) -> Iterator[dict[str, Any]]:
    loaded, settings = load_model(jobs[0].model), CaptureSettings(token_budget=_BUDGET)
    body, pools = loaded.model.base_model, batch_jobs(jobs)

    def prepare_all() -> list[list[Prepared]]:
        forget_trees(jobs[0].language)
        return [
            [item for job in pool.jobs for item in prepare(loaded, read_job_items(job))] for pool in pools
        ]

    inputs = prepare_all()
    rows = [read_ids(item, loaded) for items in inputs for item in items]
    batches = batched(rows, [str(index) for index in range(len(rows))], _BUDGET)

    def capture() -> None:
        for pool, items in zip(pools, inputs, strict=True):
            capture_all(loaded, pool, items, settings)

    def observe() -> None:
        forget_trees(jobs[0].language)
        for job in jobs:
            for part in job.parts:
                (Path(job.root) / part.relative).unlink(missing_ok=True)
        for pool in pools:
            observe_batch(pool)

    steps: dict[str, Callable[[], object]] = {
        "bare": lambda: forward(body, batches),
        "capture": capture,
        "prepare": prepare_all,
        "job": observe,
    }
    rounds: list[dict[str, float]] = []
    for repeat in range(_ROUNDS + 1):
        times: dict[str, float] = {}
        for step, work in steps.items():
            begin = time.process_time()
            work()
            times[step] = 1e3 * (time.process_time() - begin) / len(rows)
        if repeat:  # the first round warms caches, and loads the model that jobs keep
            rounds.append(times)
    capture_target, job_target = _TARGETS[lens]
    yield _time_row(
        f"{lens}: host time of capture", [one["capture"] - one["bare"] for one in rounds], capture_target
    )
    yield _time_row(f"{lens}: preparation of an input", [one["prepare"] for one in rounds], None)
    yield _time_row(f"{lens}: host time of a job", [one["job"] - one["bare"] for one in rounds], None)
    yield _time_row(
        f"{lens}: host time of a job without preparation",
        [one["job"] - one["bare"] - one["prepare"] for one in rounds],
        job_target,
    )
    yield from _count_rows(lens, body, steps, len(batches))


class _WholeSums(SegmentSums):
    """Sums of a batch by one product, as on an accelerator; a processor takes one a row and band."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._banded = False


def _count_rows(
    lens: str, body: torch.nn.Module, steps: dict[str, Callable[[], object]], bare_batches: int
) -> Iterator[dict[str, Any]]:
    read: list[int] = []

    def note_forward(*_: object) -> None:
        read.append(1)

    handle = body.register_forward_pre_hook(note_forward)
    try:
        # What an accelerator does at once, a processor does in parts that stay in its cache.
        with (
            patch.object(word_attention, "SegmentSums", _WholeSums),
            patch.object(word_attention, "_CPU_CELLS", word_attention._ACCELERATOR_CELLS),
        ):
            launches = count_launches(steps["capture"])
    finally:
        handle.remove()
    bare = count_launches(steps["bare"]) / bare_batches
    yield _row(f"{lens}: kernel launches a batch, bare forward", bare, "", None)
    yield _row(f"{lens}: kernel launches a batch, capture", launches / len(read), "", None)


def _time_row(name: str, values: Sequence[float], target: float | None) -> dict[str, Any]:
    row = _row(name, statistics.median(values), "ms/item", None if target is None else f"<= {target}")
    return {**row, "spread": (min(values), max(values))}


def _row(name: str, value: float, unit: str, target: str | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target}
