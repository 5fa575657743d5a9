"""Pre-training by recipe against the bare Hugging Face trainer on the same model and the same samples."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from sonde.models.engine.silence import silence_libraries
from sonde.training.precision import uses_bfloat16
from sonde.training.pretrain.initial_weights import init_model
from sonde.training.pretrain.loop import train
from sonde.training.pretrain.objectives import BlockDataset, DocumentLines, PairDataset, build_all_pairs
from sonde.training.pretrain.recipe import Recipe, read_recipe

_ENCODER = Path(__file__).parents[1] / "recipes" / "mini-encoder-cpu.toml"
_ROUNDS = 3
_STEPS = 8
_SUBWORDS = 30_000
_LINE = 12
_FILE = 600
_MODELS = {
    "pairs of lines (bert)": ("encoder", "bert", "pairs"),
    "masked (bert)": ("encoder", "bert", "masked"),
    "causal (llama)": ("decoder", "llama", "causal"),
}
_RECIPE = """
[model]
role = "{role}"
architecture = "{architecture}"
context = 128
[model.settings]
hidden_size = 128
intermediate_size = 384
num_hidden_layers = 2
num_attention_heads = 2
tie_word_embeddings = true
[[data.corpora]]
name = "environment"
language = "python"
[training]
objective = "{objective}"
steps = {steps}
blocks_per_step = 8
blocks_at_once = 8
block = 128
warmup_steps = 1
masked = 0.15
log_every = {steps}
[optimiser]
hidden = "adamw"
hidden_lr = 0.0005
lr = 0.0005
"""


def run() -> Iterable[dict[str, str | float | None]]:
    """Measure on random subwords; rows of name, value, unit, target."""
    for name, (role, architecture, objective) in _MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bench.toml"
            text = _RECIPE.format(role=role, architecture=architecture, objective=objective, steps=_STEPS)
            path.write_text(text)
            recipe = read_recipe(path)
            rounds = [_round(recipe, Path(folder)) for _ in range(_ROUNDS + 1)][1:]
        subwords = _STEPS * recipe.training.blocks_per_step * recipe.training.block
        own = statistics.median(subwords / one for one, _ in rounds)
        yield {"name": f"{name}, by recipe", "value": own, "unit": "subwords/s", "target": None}
        ratio = statistics.median(bare / one for one, bare in rounds)
        yield {
            "name": f"{name}, speed over the bare Trainer's",
            "value": ratio,
            "unit": "",
            "target": ">= 0.95",
        }
    with tempfile.TemporaryDirectory() as folder:
        plain, fused = (_pace(compiled, Path(folder)) for compiled in (False, True))
    name = "the bundled encoder's recipe, operations fused, speed over not"
    yield {"name": name, "value": plain / fused, "unit": "", "target": ">= 1.2"}


def _pace(compiled: bool, folder: Path) -> float:
    """Seconds of sixteen updates by the bundled encoder's recipe, once all that is compiled has been."""
    recipe = read_recipe(_ENCODER)
    training = dataclasses.replace(recipe.training, steps=24, warmup_steps=1, log_every=8, compile=compiled)
    recipe = dataclasses.replace(recipe, training=training)
    times: list[float] = []
    train(recipe, _samples(recipe), folder, resume=False, report=lambda _: times.append(time.perf_counter()))
    return times[-1] - times[0]


def _round(recipe: Recipe, folder: Path) -> tuple[float, float]:
    """Seconds of a training by recipe and by the bare trainer, each with the checkpoint at its end."""
    samples = _samples(recipe)
    own = train(recipe, samples, folder / "run", resume=False, report=lambda _: None).seconds
    with silence_libraries():
        return own, _bare(recipe, _Listed(samples, recipe), folder)


def _samples(recipe: Recipe) -> BlockDataset | PairDataset:
    draw = np.random.default_rng(0)
    stream = draw.integers(5, recipe.vocabulary.size, _SUBWORDS).astype(np.uint16)
    if recipe.objective != "pairs":
        return BlockDataset(stream, recipe)
    edges = np.arange(0, _SUBWORDS, _LINE)
    files = np.arange(0, len(edges), _FILE // _LINE)
    return PairDataset(stream, build_all_pairs(DocumentLines(edges, files), 128, recipe.pairs, 0), recipe)


class _Listed(Dataset[dict[str, Tensor]]):
    """The same samples, made beforehand, as transformers' own models take them."""

    def __init__(self, samples: BlockDataset | PairDataset, recipe: Recipe) -> None:
        self._samples = [dict(samples[k]) for k in range(len(samples))]
        if recipe.objective == "causal":
            for sample in self._samples:
                sample["labels"] = sample["input_ids"]

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        return self._samples[k]


class _Stopwatch(TrainerCallback):
    """When training began, the model and the trainer being there."""

    start = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self.start = time.perf_counter()


def _bare(recipe: Recipe, samples: _Listed, folder: Path) -> float:
    training = recipe.training
    cuda = torch.cuda.is_available()
    watch = _Stopwatch()
    arguments = TrainingArguments(
        output_dir=str(folder / "bare"),
        max_steps=training.steps,
        per_device_train_batch_size=training.blocks_at_once,
        learning_rate=5e-4,
        use_cpu=not cuda,
        bf16=uses_bfloat16(training.precision, torch.device("cuda" if cuda else "cpu")),
        logging_steps=training.log_every,
        save_steps=training.steps,
        train_sampling_strategy="sequential",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=init_model(recipe), args=arguments, train_dataset=samples, callbacks=[watch])
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return time.perf_counter() - watch.start
