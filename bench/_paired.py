"""A lens's job against the bare forward of the same inputs, round by round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sonde.capture.windows import batch_by_length, pad_rows
from sonde.experiments.observe import observe_batch
from sonde.experiments.plan import JobBatch, ObserveJob
from sonde.languages import LANGUAGES

BUDGET = 1024
"""Padded tokens a batch on a processor."""

_REPEATS = 5
_MORE_THAN_KEPT = 1_000_000


def batched(rows: Sequence[np.ndarray], keys: Sequence[str], budget: int = BUDGET) -> list[list[np.ndarray]]:
    """Put inputs into the batches that capture would make of them."""
    return [[rows[at] for at in batch] for batch in batch_by_length([len(row) for row in rows], keys, budget)]


def paired(job: ObserveJob, folder: Path, bare: Callable[[], None]) -> float:
    """Return the median over rounds of a job's time over that of the bare forward."""
    ratios: list[float] = []
    for repeat in range(_REPEATS + 1):
        forget_trees(job.language)
        begun = time.perf_counter()
        bare()
        between = time.perf_counter()
        for part in job.parts:
            (folder / part.relative).unlink(missing_ok=True)
        observe_batch(JobBatch(root=job.root, model=job.model, jobs=(job,)))
        ended = time.perf_counter()
        if repeat:  # the first round warms caches
            ratios.append((ended - between) / (between - begun))
    return statistics.median(ratios)


def forget_trees(language: str) -> None:
    """Make a language let go of the trees that it made last, by parsing another long text."""
    LANGUAGES.load(language).parse(" " * _MORE_THAN_KEPT)


@torch.inference_mode()
def forward(model: Any, batches: Sequence[Sequence[np.ndarray]]) -> None:
    """One forward a batch; what comes out, logits included, is dropped."""
    device = next(model.parameters()).device
    for batch in batches:
        mask = torch.from_numpy(pad_rows([np.ones(len(row), dtype=np.int64) for row in batch], 0))
        _ = model(input_ids=torch.from_numpy(pad_rows(batch, 0)).to(device), attention_mask=mask.to(device))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
