"""Memory that runs out: how many forwards are wasted until it is known what fits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from sonde.capture.forward import observe
from sonde.capture.requests import HiddenStates, Pass, Plain, Prepared, TokenScores
from sonde.capture.settings import CaptureSettings
from sonde.models import LoadedModel
from sonde.models.engine.memory import out_of_memory

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

FITS, BUDGET, MOST_WASTED = 640, 4096, 4


def scarce(loaded: LoadedModel, patch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """Let a model's memory hold so many padded tokens; what is read, and what is tried in vain."""
    read: list[int] = []
    wasted: list[int] = []
    forward = loaded.model.base_model.forward

    def limited(*args: Any, **kwargs: Any) -> Any:
        size = kwargs["input_ids"].numel()
        (wasted if size > FITS else read).append(size)
        if size > FITS:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
        return forward(*args, **kwargs)

    patch.setattr(loaded.model.base_model, "forward", limited)
    return read, wasted


def test_what_does_not_fit_is_tried_four_times_at_most_in_all_jobs_of_a_model(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(0)
    texts = ["".join(draw.choices("abcdef =()\n", k=draw.randint(3, 60))) for _ in range(900)]
    items = [prepare(text) for text in dict.fromkeys(texts)]
    loaded = tiny("llama")
    asked = [Pass(Plain(), (TokenScores(),))]
    settings = CaptureSettings(token_budget=BUDGET, share=False)
    expected = list(observe(loaded, items, asked, settings=settings))
    read, wasted = scarce(loaded, monkeypatch)
    found = [
        capture
        for begin in range(0, len(items), 100)
        for capture in observe(loaded, items[begin : begin + 100], asked, settings=settings)
    ]
    assert len(read) > 40
    assert 0 < len(wasted) <= MOST_WASTED
    # What is known of one kind of work says nothing of another, which takes other memory.
    list(observe(loaded, items[:100], [Pass(Plain(), (HiddenStates(),))], settings=settings))
    assert MOST_WASTED >= len(wasted[3:]) > 0
    for one, two in zip(found, expected, strict=True):
        assert one.scores is not None and two.scores is not None
        np.testing.assert_allclose(one.scores.nats, two.scores.nats, atol=1e-5)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `create`"), True),
        (RuntimeError("GET was unable to find an engine to execute this computation"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_INVALID_VALUE"), False),
    ],
)
def test_a_lack_of_memory_is_told_from_other_errors(error: BaseException, expected: bool) -> None:
    assert out_of_memory(error) is expected
