"""Fine-tuning against the bare Trainer of transformers: the same model, head, optimiser and batch shapes."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from sonde.models import ModelSpec
from sonde.training.finetune.batches import Batch, MicroBatches, collate, order_batches
from sonde.training.finetune.data import EncodedExample, Sample, TaskData
from sonde.training.finetune.model import HeadedModel, build_headed_model, load_for_training
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.tune import fit
from sonde.training.precision import uses_bfloat16

_RECIPE = FinetuneRecipe(length=128, epochs=1, batch=16)
_STEPS, _WARM = 8, 2
_ROUNDS = 5
_TENSORS = ("ids", "part", "target", "candidates", "location", "repairs")


def run() -> Iterable[dict[str, Any]]:
    """Measure with the bundled encoder on texts of 32 to 128 subwords; rows of name, value, unit, target."""
    spec = ModelSpec(name="sonde/mini-encoder")
    loaded = load_for_training(spec)
    encoded = _examples(loaded.capabilities.vocab, _RECIPE.batch * _STEPS)
    samples = [Sample(str(row), "", one.target) for row, one in enumerate(encoded)]
    data = TaskData(("no", "yes"), samples, samples, samples)
    model = build_headed_model(loaded, data, _RECIPE)
    compiled = build_headed_model(load_for_training(spec), data, dataclasses.replace(_RECIPE, compile=True))
    start = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    pad = loaded.special.pad
    # Compiled here, for batches of any length.
    _ours(compiled, encoded, pad)
    ratios: list[float] = []
    fused: list[float] = []
    speeds: list[float] = []
    for _ in range(_ROUNDS):
        # Side by side, so that a busy machine slows both alike.
        model.load_state_dict(start)
        own = _ours(model, encoded, pad)
        model.load_state_dict(start)
        bare = _bare(model, encoded, pad)
        ratios.append(bare / own)
        speeds.append(_subwords(encoded) / own)
        compiled.load_state_dict(start)
        fused.append(own / _ours(compiled, encoded, pad))
    yield _row("subwords trained on", statistics.median(speeds), "1/s", None)
    yield _row("of the bare Trainer's speed", statistics.median(ratios), "x", ">= 0.95")
    yield _row("compiled, of the speed without", statistics.median(fused), "x", "> 1")


def _examples(vocabulary: int, size: int) -> list[EncodedExample]:
    rng = np.random.default_rng(0)
    found: list[EncodedExample] = []
    for width in rng.integers(32, _RECIPE.length + 1, size).tolist():
        ids = rng.integers(10, vocabulary, width)
        found.append(EncodedExample(ids, np.ones(width, np.int64), int(rng.integers(2))))
    return found


def _subwords(encoded: Sequence[EncodedExample]) -> int:
    """Subwords of the timed updates."""
    batches = order_batches(encoded, _RECIPE.batch, _RECIPE.seed, 0)[_WARM:]
    return sum(len(encoded[row].ids) for rows in batches for row in rows)


def _ours(model: HeadedModel, encoded: Sequence[EncodedExample], pad: int) -> float:
    """Seconds of the updates after the first few."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        fit(
            model,
            encoded,
            encoded[:1],
            _RECIPE,
            rate=1e-4,
            pad=pad,
            folder=Path(folder),
            portions=MicroBatches(torch.device("cpu")),
            on_step=lambda _: times.append(_now()),
        )
    return times[-1] - times[_WARM - 1]


class _Lossy(nn.Module):
    """A headed model as the Trainer takes one: tensors in, a loss out."""

    def __init__(self, model: HeadedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Compute the loss."""
        batch = Batch(rows=np.zeros(0, np.int64), **tensors)
        return {"loss": self.model.head.loss(self.model(batch), batch)}


class _Clock(TrainerCallback):
    """When each update was done."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time."""
        self.times.append(_now())


def _bare(model: HeadedModel, encoded: Sequence[EncodedExample], pad: int) -> float:
    """Seconds of the same updates by the Trainer."""
    clock = _Clock()
    cpu = torch.device("cpu")
    device = next(model.parameters()).device

    def tensors(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        batch = collate(rows[0], encoded, pad, cpu)
        return {name: getattr(batch, name) for name in _TENSORS}

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=1,
            num_train_epochs=1,
            learning_rate=1e-4,
            weight_decay=_RECIPE.decay,
            max_grad_norm=_RECIPE.clip,
            use_cpu=device == cpu,
            bf16=uses_bfloat16(_RECIPE.precision, device),
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        batches = order_batches(encoded, _RECIPE.batch, _RECIPE.seed, 0)
        shown: Any = batches
        trainer = Trainer(_Lossy(model), arguments, tensors, shown, callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.times[-1] - clock.times[_WARM - 1]


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _row(name: str, value: float, unit: str, target: str | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target}
