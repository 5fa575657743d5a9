"""The whole surprisal lens (parsing, alignment, capture, item table, writing) against the bare forward.

Both sides see the same batches, a long item's windows included; rounds are interleaved and the median of
paired ratios is reported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

from bench._paired import batched, forward, paired
from sonde.capture import CaptureSettings
from sonde.capture.merge_requests import InputShape, InputVariant, MergedRequests
from sonde.capture.requests import Prepared, TokenScores, prepare
from sonde.capture.windows import Row, RowCutter
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import read_job_items
from sonde.experiments.plan import ObserveJob
from sonde.experiments.run import run as carry_out
from sonde.lenses.surprisal import TOP_K
from sonde.models import LoadedModel, ModelSpec, load_model, load_tokenizer

_BUNDLED = "sonde/mini-decoder"


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
