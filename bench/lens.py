"""The whole surprisal lens (parsing, alignment, capture, item table, writing) against the bare forward.

Both sides see the same batches, a long item's windows included; rounds are interleaved and the median of
paired ratios is reported.

Then the capture with the costs of code tokens, which compare models with different tokenizers, against that
without them: with the bundled decoder and the models of ``SONDE_BENCH_UNITS``, separated by commas.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

from bench._paired import batched, forward, paired
from sonde.capture import CaptureSettings
from sonde.capture.forward import observe
from sonde.capture.merge_requests import InputShape, InputVariant, MergedRequests
from sonde.capture.requests import Prepared, TokenEndScores, TokenScores, prepare
from sonde.capture.windows import Row, RowCutter
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import read_job_items
from sonde.experiments.plan import ObserveJob
from sonde.experiments.run import run as carry_out
from sonde.lenses import LensSettings, load_reading_lens
from sonde.lenses.surprisal import TOP_K
from sonde.lenses.surprisal.observe import LENS
from sonde.lenses.surprisal.units import compute_unit_costs
from sonde.models import LoadedModel, ModelSpec, load_model, load_tokenizer

_BUNDLED = "sonde/mini-decoder"

_REPEATS = 5


def run() -> Iterator[dict[str, Any]]:
    """Measure the bundled decoder and a larger one with random weights, a row as soon as it is there."""
    with tempfile.TemporaryDirectory() as folder:
        large = _large(Path(folder) / "large")
        rows = [("bundled decoder", _BUNDLED, 64, 1.2), ("12x768, 50k vocabulary", str(large), 12, 1.1)]
        for name, model, items, target in rows:
            yield {
                "name": f"whole lens / bare forward, {name}",
                "value": _ratio(model, items, Path(folder) / f"run-{items}"),
                "unit": "x",
                "target": target,
            }
        models = [_BUNDLED, *filter(None, os.environ.get("SONDE_BENCH_UNITS", "").split(","))]
        for number, model in enumerate(models):
            items = 64 if model == _BUNDLED else 12
            yield {
                "name": f"surprisal with costs of code tokens / without, {Path(model).name}",
                "value": _unit_ratio(model, items, Path(folder) / f"units-{number}"),
                "unit": "x",
                "target": 1.15,
            }


def _unit_ratio(model: str, items: int, folder: Path) -> float:
    """Return the median over rounds of a capture's time with the costs of code tokens over that without."""
    experiment = Experiment(models=(model,), selection=Selection(limit=items))
    job = carry_out(experiment, Execution(output=folder)).jobs[0]
    loaded = load_model(job.model)
    prepared = prepare(loaded, read_job_items(job))
    passes = load_reading_lens(LENS).input_requests(prepared, {}, LensSettings())
    bare_passes = [
        dataclasses.replace(
            one, requests=tuple(wanted for wanted in one.requests if not isinstance(wanted, TokenEndScores))
        )
        for one in passes
    ]
    ratios: list[float] = []
    for repeat in range(_REPEATS + 1):
        begun = time.perf_counter()
        list(observe(loaded, prepared, bare_passes))
        between = time.perf_counter()
        for one, capture in zip(prepared, observe(loaded, prepared, passes), strict=True):
            assert capture.scores is not None
            compute_unit_costs(one, capture.scores, capture.extra[TokenEndScores.answer], causal=True)
        ended = time.perf_counter()
        if repeat:  # the first round warms caches
            ratios.append((ended - between) / (between - begun))
    return statistics.median(ratios)


def _large(folder: Path) -> Path:
    """Build a decoder of GPT-2's size that reads the bundled vocabulary and scores one of 50k."""
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
    load_tokenizer(ModelSpec(name=_BUNDLED)).save_pretrained(folder)
    return folder


def _ratio(model: str, items: int, folder: Path) -> float:
    experiment = Experiment(models=(model,), selection=Selection(limit=items))
    outcome = carry_out(experiment, Execution(output=folder))
    return _paired(outcome.jobs[0], folder)


def _paired(job: ObserveJob, folder: Path) -> float:
    loaded = load_model(job.model)
    prepared = prepare(loaded, read_job_items(job))
    rows = [row for source in range(len(prepared)) for row in _windows(source, prepared[source], loaded)]
    keys = [f"{prepared[row.source].item.item_id} {row.origin}" for row in rows]
    batches = batched([row.tokens for row in rows], keys)
    return paired(job, folder, lambda: forward(loaded.model, batches))


def _windows(source: int, prepared: Prepared, loaded: LoadedModel) -> list[Row]:
    """Return the windows that capture cuts an item into."""
    asked = InputVariant(source, InputShape(), MergedRequests((TokenScores(TOP_K),)))
    return RowCutter(loaded, CaptureSettings()).rows(source, asked, prepared)
