"""The training loop: the Hugging Face trainer with this project's losses, rates and checkpoints."""

from __future__ import annotations

import importlib.metadata
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.training.objectives import causal_loss
from sonde.training.optimiser import MuonAdamW
from sonde.training.precision import in_bfloat16
from sonde.training.recipe import Recipe, TrainingConfig
from sonde.training.vocabulary import BOS, EOS, PAD, SPECIALS

_LOG_EVERY = 20
_CHECKPOINTS_KEPT = 2
_LIBRARIES = ("torch", "transformers", "tokenizers")


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training run left.

    Attributes:
        model: The model in float32.
        seconds: Time spent in the loop, all starts together; work lost to a kill is not counted.
        loss: Mean nats of the last logged updates.
        hardware: What it ran on.
        versions: Libraries and their versions.
        is_main: Whether this process is the one that writes.
    """

    model: PreTrainedModel
    seconds: float
    loss: float
    hardware: str
    versions: dict[str, str]
    is_main: bool = True


def rate_factor(step: int, training: TrainingConfig) -> float:
    """The learning rate of an update (from 0) as a share of its peak."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    left = (training.steps - step) / (training.steps - training.warmup_steps)
    if training.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if training.schedule == "wsd":
        return min(1.0, (training.steps - step) / (training.decay * training.steps))
    return left


def fresh_model(recipe: Recipe) -> PreTrainedModel:
    """A model with random weights, from the recipe's seed.

    Raises:
        InputError: transformers knows no such architecture.
    """
    model = recipe.model
    pad, bos, eos = (SPECIALS.index(piece) for piece in (PAD, BOS, EOS))
    roles = {"cls_token_id": bos, "sep_token_id": eos} if model.role == "encoder" else {}
    try:
        config = AutoConfig.for_model(
            model.architecture,
            vocab_size=recipe.vocabulary.size,
            max_position_embeddings=model.context,
            pad_token_id=pad,
            bos_token_id=bos,
            eos_token_id=eos,
            **roles,
            **model.settings,
        )
    except ValueError as error:
        raise InputError(
            f"model.architecture {model.architecture!r}: transformers knows no such type"
        ) from error
    torch.manual_seed(recipe.seed)
    auto = AutoModelForCausalLM if model.role == "decoder" else AutoModelForMaskedLM
    return auto.from_config(config, attn_implementation="sdpa", dtype=torch.float32)


class _Trainer(Trainer):
    """The Hugging Face trainer with the recipe's optimiser and rates."""

    def __init__(self, recipe: Recipe, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._recipe = recipe
        # The loss is a mean over the batch already: the trainer must not divide by a number of labels.
        self.model_accepts_loss_kwargs = False

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Muon and AdamW as the recipe says."""
        module = model if model is not None else self.model
        assert isinstance(module, nn.Module)
        self.optimizer = MuonAdamW(module, self._recipe.optimiser)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """The recipe's schedule over its own number of steps."""
        training = self._recipe.training
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rate_factor(step, training))
        return self.lr_scheduler


class _Progress(TrainerCallback):
    """Checkpoints by the clock, the clock itself, and a line now and then."""

    def __init__(self, recipe: Recipe, clock: Path, report: Callable[[str], None]) -> None:
        self._training = recipe.training
        self._clock = clock
        self._report = report
        self._before = 0.0
        self._first = 0
        self._started = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time in the loop, earlier starts included."""
        return self._before + time.monotonic() - self._started

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Take up the clock where the checkpoint left it."""
        self._first = state.global_step
        if self._first and self._clock.is_file():
            self._before = float(json.loads(self._clock.read_text())["seconds"])
        self._started = self._saved = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for a checkpoint once the time has come."""
        if time.monotonic() - self._saved >= 60 * self._training.checkpoint_minutes:
            self._saved = time.monotonic()
            control.should_save = True

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep the clock beside the checkpoint."""
        if state.is_world_process_zero:
            write_atomic(self._clock, json.dumps({"step": state.global_step, "seconds": self.seconds}))

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the loss."""
        logs: dict[str, float] = kwargs.get("logs") or {}
        if "loss" in logs and state.is_world_process_zero:
            read = (state.global_step - self._first) * self._training.blocks_per_step * self._training.block
            speed = read / (time.monotonic() - self._started)
            done = f"step {state.global_step}/{self._training.steps}"
            self._report(f"{done}  loss {float(logs['loss']):.3f}  {speed:,.0f} subwords/s")


def _arguments(recipe: Recipe, folder: Path) -> TrainingArguments:
    training = recipe.training
    cuda = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=training.steps,
        per_device_train_batch_size=training.blocks_at_once,
        train_sampling_strategy="sequential",
        max_grad_norm=1.0,
        use_cpu=not cuda,
        bf16=in_bfloat16(training.precision, torch.device("cuda" if cuda else "cpu")),
        logging_steps=_LOG_EVERY,
        save_strategy="steps",
        save_steps=training.steps,
        save_total_limit=_CHECKPOINTS_KEPT,
        seed=recipe.seed,
        data_seed=recipe.seed,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=cuda,
        report_to=[],
        disable_tqdm=True,
    )
    devices = max(1, arguments.world_size)
    if training.blocks_per_step % (training.blocks_at_once * devices):
        raise InputError(
            f"training.blocks_per_step {training.blocks_per_step}: not a multiple of "
            f"{training.blocks_at_once} blocks at once on {devices} devices; change either"
        )
    arguments.gradient_accumulation_steps = training.blocks_per_step // (training.blocks_at_once * devices)
    return arguments


def train(
    recipe: Recipe,
    dataset: Dataset[dict[str, Tensor]],
    folder: Path,
    *,
    resume: bool,
    report: Callable[[str], None],
) -> Trained:
    """Train a fresh model, or go on from its last checkpoint.

    Killed at any moment and started again, a run ends with the weights of an undisturbed one (one thread,
    same machine): the order of samples and the hidden subwords depend on the seed and the sample's number
    alone.

    Args:
        recipe: What to train.
        dataset: The samples in training order.
        folder: Where checkpoints go.
        resume: Whether a checkpoint found there is continued.
        report: Receives progress, one line at a time.

    Raises:
        InputError: The checkpoint found is of another architecture, or batches do not fit the number of
            devices.
    """
    model = fresh_model(recipe)
    if recipe.model.role == "decoder":
        # Replaced on the instance, so that wrappers for several devices see the call that computes the loss.
        def forward(input_ids: Int[Tensor, "batch token"]) -> dict[str, Tensor]:
            return {"loss": causal_loss(model, input_ids)}

        model.forward = forward
    progress = _Progress(recipe, folder / "clock.json", report)
    trainer = _Trainer(
        recipe, model=model, args=_arguments(recipe, folder), train_dataset=dataset, callbacks=[progress]
    )
    trainer.remove_callback(PrinterCallback)
    last = get_last_checkpoint(str(folder)) if resume and folder.is_dir() else None
    if last:
        report(f"going on from {last}")
    try:
        trainer.train(resume_from_checkpoint=last)
    except (RuntimeError, ValueError, KeyError) as error:
        if last and ("size mismatch" in str(error) or "parameter group" in str(error)):
            raise InputError(
                f"checkpoint {last} is of another architecture or optimiser; "
                f"delete {folder} or rename the recipe"
            ) from error
        raise
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    return Trained(
        _plain(model),
        progress.seconds,
        losses[-1] if losses else math.nan,
        _hardware(recipe.training.precision),
        {name: importlib.metadata.version(name) for name in _LIBRARIES},
        trainer.is_world_process_zero(),
    )


def _hardware(precision: str) -> str:
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    products = "bfloat16" if in_bfloat16(precision, torch.device("cpu")) else "float32"
    return f"{torch.get_num_threads()} processor thread(s), products in {products}"


def _plain(model: PreTrainedModel) -> PreTrainedModel:
    model.__dict__.pop("forward", None)
    return model.eval()
