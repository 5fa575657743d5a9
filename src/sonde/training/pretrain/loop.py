"""The training loop: Hugging Face's trainer with this project's losses and rates, and its checkpoints.

A checkpoint counts once it is marked as complete (`mark_complete`). The folder notes what its checkpoints
belong to (`claim_folder`), so that training never resumes from those of another model or of other data.
"""

from __future__ import annotations

import copy
import importlib.metadata
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from jaxtyping import Int
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from sonde.base.errors import InputError
from sonde.base.files import report_full_disk, write_atomic
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import plural
from sonde.models.engine.silence import silence_libraries
from sonde.training.precision import check_compiler, uses_bfloat16
from sonde.training.pretrain.initial_weights import init_model
from sonde.training.pretrain.objectives import causal_loss, pair_losses
from sonde.training.pretrain.optimiser import MuonAdamW
from sonde.training.pretrain.recipe import Recipe, TrainingConfig

_CLOCK, _BELONGS = "clock.json", "belongs.json"


def mark_complete(folder: Path, step: int, seconds: float) -> None:
    """Say that the checkpoint of an update is whole; until then it does not count.

    Args:
        folder: Where checkpoints go.
        step: The update.
        seconds: Time spent in the loop so far.
    """
    write_atomic(folder / _CLOCK, json.dumps({"step": step, "seconds": seconds}))


def find_last_checkpoint(folder: Path) -> tuple[Path, float] | None:
    """Find the last complete checkpoint, and the seconds in the loop until then."""
    try:
        clock = json.loads((folder / _CLOCK).read_text())
    except FileNotFoundError:
        return None
    path = folder / f"{PREFIX_CHECKPOINT_DIR}-{int(clock['step'])}"
    return (path, float(clock["seconds"])) if path.is_dir() else None


def clear_checkpoints(folder: Path, *, last: Path | None) -> None:
    """Delete checkpoints that a kill left unfinished, or that a fresh start does away with.

    Args:
        folder: Where checkpoints go.
        last: The one that training resumes from; those before it stay too.
    """
    keep = -1 if last is None else _step_number(last)
    for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if last is None or _step_number(path) > keep:
            shutil.rmtree(path)
    if last is None:
        (folder / _CLOCK).unlink(missing_ok=True)


def _step_number(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def claim_folder(folder: Path, recipe: Recipe, last: Path | None) -> None:
    """Note what the checkpoints of a folder belong to, and check an earlier note against the recipe.

    Steps, rates and schedule may change between two starts; what the weights or the order of the samples
    depend on may not.

    Args:
        folder: Where checkpoints go.
        recipe: What is trained.
        last: The checkpoint to resume from; without one there is nothing to compare.

    Raises:
        InputError: The checkpoint is of another architecture, of other data or of another order.
        StoreError: The note cannot be written.
    """
    path = folder / _BELONGS
    keys = _recipe_keys(recipe)
    if last is not None and path.is_file():
        previous_keys: dict[str, Any] = json.loads(path.read_text())
        for name, key in keys.items():
            if previous_keys.get(name) != key:
                raise InputError(
                    f"checkpoint {last} is of another {name}; delete {folder} or rename the recipe"
                )
    write_atomic(path, json.dumps(keys))


def _recipe_keys(recipe: Recipe) -> dict[str, str]:
    training = recipe.training
    return {
        "architecture": fingerprint(recipe.model, recipe.objective, recipe.vocabulary.size),
        "data set or vocabulary": fingerprint(recipe.data, recipe.vocabulary),
        "optimiser": recipe.optimiser.hidden,
        "order of samples (seed, block, blocks_per_step, masked or [pairs])": fingerprint(
            recipe.seed, training.block, training.blocks_per_step, training.masked, recipe.pairs
        ),
    }


class SnapshotCallback(TrainerCallback):
    """Hands a copy of the model on after 0, 1, 2, 4, 8, ... updates, and after the last."""

    def __init__(
        self, recipe: Recipe, model: PreTrainedModel, keep: Callable[[PreTrainedModel, int], None]
    ) -> None:
        self._last = recipe.training.steps
        self._model = model
        self._keep = keep

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep the model before its first update."""
        if state.global_step == 0:
            self._keep_copy(state)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Keep it where the update is a power of two, and at the end."""
        step = state.global_step
        if step & (step - 1) == 0 or step == self._last:
            self._keep_copy(state)

    def _keep_copy(self, state: TrainerState) -> None:
        if state.is_world_process_zero:
            # Without what the trainer has put on the instance, which no copy may carry.
            state_dict = {
                name: weight.detach().cpu().clone() for name, weight in self._model.state_dict().items()
            }
            model_copy = type(self._model)(copy.deepcopy(self._model.config))
            model_copy.load_state_dict(state_dict)
            self._keep(model_copy, state.global_step)


_CHECKPOINTS_KEPT = 2


_LIBRARIES = ("torch", "transformers", "tokenizers")


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """Result of a training run.

    Attributes:
        model: The model in float32.
        seconds: Time spent in the loop, all starts together; work lost to a kill is not counted.
        loss: Mean nats of the last logged updates.
        curve: The loss curve: updates done, mean nats since the last point, and the rate.
        hardware: What it ran on.
        versions: Libraries and their versions.
        is_main: Whether this process is the one that writes.
    """

    model: PreTrainedModel
    seconds: float
    loss: float
    curve: tuple[tuple[int, float, float], ...]
    hardware: str
    versions: dict[str, str]
    is_main: bool = True


def rate_factor(step: int, training: TrainingConfig) -> float:
    """Return the learning rate of an update (from 0) as a share of its peak."""
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    left = (training.steps - step) / (training.steps - training.warmup_steps)
    if training.schedule == "cosine":
        return 0.5 * (1 - math.cos(math.pi * left))
    if training.schedule == "wsd":
        return min(1.0, (training.steps - step) / (training.decay * training.steps))
    return left


class _Trainer(Trainer):
    """The Hugging Face trainer with the recipe's optimiser and rates."""

    # What `compute_loss` gives adds up over the parts of an update.
    loss_is_scaled_for_ga = True

    def __init__(self, recipe: Recipe, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._recipe = recipe
        # Has the trainer count the hidden subwords of a whole update.
        self.model_accepts_loss_kwargs = recipe.objective != "causal"

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute the contribution of these samples to the mean loss of their update.

        However many parts an update is done in, on however many devices, hidden subwords all weigh the same,
        and so do pairs of sentences.
        """
        output = model(**inputs)
        parts = self.args.gradient_accumulation_steps
        if num_items_in_batch is None or parts * self.args.world_size == 1:
            return output["loss"] / parts
        # Devices are averaged over behind this.
        share = (inputs["labels"] >= 0).sum() * self.args.world_size / num_items_in_batch
        next_sentence_loss = output.get("next_sentence_loss")
        if next_sentence_loss is None:
            return output["loss"] * share
        return output["masked_loss"] * share + next_sentence_loss / parts

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Create Muon and AdamW by the recipe."""
        module = model if model is not None else self.model
        assert isinstance(module, nn.Module)
        self.optimizer = MuonAdamW(module, self._recipe.optimiser, self._recipe.training.precision)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """Create the recipe's schedule over its own number of steps."""
        training = self._recipe.training
        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, lambda step: rate_factor(step, training))
        return self.lr_scheduler


class _Progress(TrainerCallback):
    """Checkpoints by the clock, the clock itself, and a line now and then."""

    def __init__(
        self, recipe: Recipe, folder: Path, seconds_before: float, report: Callable[[str], None]
    ) -> None:
        self._training = recipe.training
        self._folder = folder
        self._report = report
        self._before = seconds_before
        self._first = 0
        self._started = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time in the loop, earlier starts included."""
        return self._before + time.monotonic() - self._started

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock."""
        self._first = state.global_step
        self._started = self._saved = time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for a checkpoint once the time has come and the curve has a point.

        Points are means over the updates since the last one: a checkpoint between two would shift those
        behind it.
        """
        control.should_log |= state.global_step >= self._training.steps
        if state.global_step % self._training.log_every == 0:
            due = time.monotonic() - self._saved >= 60 * self._training.checkpoint_minutes
            if args.world_size > 1:
                # Every process has to save at the same update: the first one's clock counts.
                (due,) = broadcast_object_list([due])
            if due:
                self._saved = time.monotonic()
                control.should_save = True

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Mark the checkpoint as whole, once every process has written its part."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            mark_complete(self._folder, state.global_step, self.seconds)

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the loss."""
        logs: dict[str, float] = kwargs.get("logs") or {}
        if "loss" in logs and state.is_world_process_zero:
            read = (state.global_step - self._first) * self._training.blocks_per_step * self._training.block
            speed = read / (time.monotonic() - self._started)
            done = f"step {state.global_step}/{self._training.steps}"
            self._report(f"{done}  loss {float(logs['loss']):.3f}  {speed:,.0f} subwords/s")


def _training_arguments(recipe: Recipe, folder: Path, model: PreTrainedModel) -> TrainingArguments:
    training = recipe.training
    cuda = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=training.steps,
        per_device_train_batch_size=training.blocks_at_once,
        train_sampling_strategy="sequential",
        max_grad_norm=1.0,
        use_cpu=not cuda,
        bf16=uses_bfloat16(training.precision, torch.device("cuda" if cuda else "cpu")),
        logging_steps=training.log_every,
        save_strategy="steps",
        save_steps=training.steps,
        save_total_limit=_CHECKPOINTS_KEPT,
        seed=recipe.seed,
        data_seed=recipe.seed,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=cuda,
        dataloader_num_workers=training.workers,
        torch_compile=training.compile,
        **(_fsdp_arguments(model) if training.fsdp else {}),
        report_to=[],
        disable_tqdm=True,
    )
    # One process has one device: several are the launcher's business.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    devices = max(1, arguments.world_size)
    if training.blocks_per_step % (training.blocks_at_once * devices):
        raise InputError(
            f"training.blocks_per_step {training.blocks_per_step}: not a multiple of "
            f"{training.blocks_at_once} blocks at once on {devices} devices; change either"
        )
    arguments.gradient_accumulation_steps = training.blocks_per_step // (training.blocks_at_once * devices)
    return arguments


def _drop_aliases(model: PreTrainedModel) -> None:
    """Take away second names of parameters that no computation uses by them (a head's bias, kept twice).

    Parameters of one name can be spread over processes wherever their module is.
    """
    used = {id(p) for m in model.modules() if isinstance(m, nn.Linear) for p in m.parameters(recurse=False)}
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            for name, parameter in list(module.named_parameters(recurse=False)):
                if id(parameter) in used:
                    delattr(module, name)


def _fsdp_arguments(model: PreTrainedModel) -> dict[str, Any]:
    """Build the arguments that spread a model over processes, layer by layer.

    Embeddings that share their weight with the projection must not be a unit of their own, as they are by
    default.
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    layers = sorted({type(layer).__name__ for layer in max(stacks, key=len)})
    return {"fsdp": True, "fsdp_config": {"transformer_layer_cls_to_wrap": layers}}


def train(
    recipe: Recipe,
    dataset: Dataset[dict[str, Tensor]],
    folder: Path,
    *,
    resume: bool,
    report: Callable[[str], None],
    keep: Callable[[PreTrainedModel, int], None] | None = None,
) -> TrainedModel:
    """Train a fresh model, or resume from its last checkpoint.

    Killed at any moment and started again, a run ends with the weights of an undisturbed one (one thread,
    same machine): the order of samples and the hidden subwords depend on the seed and the sample's number
    alone.

    Args:
        recipe: What to train.
        dataset: The samples in training order.
        folder: Where checkpoints go.
        resume: Whether a checkpoint found there is continued.
        report: Receives progress, one line at a time.
        keep: Is given a copy of the model and the number of updates after 0, 1, 2, 4, 8, ... of them.

    Raises:
        InputError: The checkpoint found is of another architecture, batches do not fit the number of devices,
            operations are to be fused without a C++ compiler, or a series is to be kept of a model that is
            spread over devices.
    """
    if recipe.training.compile:
        check_compiler("training.compile")
    if keep is not None and recipe.training.fsdp:
        raise InputError(
            f"recipe {recipe.name}: no series is kept of a model that is spread over devices (fsdp)"
        )
    model = init_model(recipe)
    if recipe.training.fsdp:
        _drop_aliases(model)
    _set_loss(model, recipe)
    arguments = _training_arguments(recipe, folder, model)
    state = PartialState()
    checkpoint = find_last_checkpoint(folder) if resume else None
    last, seconds_before = checkpoint or (None, 0.0)
    if state.is_main_process:
        claim_folder(folder, recipe, last)
        clear_checkpoints(folder, last=last)
    state.wait_for_everyone()
    progress = _Progress(recipe, folder, seconds_before, report)
    trainer = _Trainer(recipe, model=model, args=arguments, train_dataset=dataset, callbacks=[progress])
    if keep is not None:
        trainer.add_callback(SnapshotCallback(recipe, model, keep))
    trainer.remove_callback(PrinterCallback)
    if last is not None:
        report(f"resuming from {last}")
    try:
        with report_full_disk(f"a checkpoint in {folder}", "the last whole one is kept"), silence_libraries():
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
    except (RuntimeError, ValueError, KeyError) as error:
        if last and ("size mismatch" in str(error) or "parameter group" in str(error)):
            raise InputError(
                f"checkpoint {last} is of another architecture or optimiser; "
                f"delete {folder} or rename the recipe"
            ) from error
        raise
    curve = tuple(
        (int(entry["step"]), float(entry["loss"]), float(entry["learning_rate"]))
        for entry in trainer.state.log_history
        if "loss" in entry
    )
    return TrainedModel(
        _unwrap_model(trainer, model, recipe),
        progress.seconds,
        curve[-1][1] if curve else math.nan,
        curve,
        _describe_hardware(recipe.training.precision),
        {name: importlib.metadata.version(name) for name in _LIBRARIES},
        trainer.is_world_process_zero(),
    )


def _set_loss(model: PreTrainedModel, recipe: Recipe) -> None:
    """Replace the forward of a model by the loss of its objective.

    Replaced on the instance, so that wrappers for several devices see the call that computes the loss.
    """

    def causal(input_ids: Int[Tensor, "batch token"]) -> dict[str, Tensor]:
        return {"loss": causal_loss(model, input_ids)}

    def pairs(**inputs: Tensor) -> dict[str, Tensor]:
        masked_loss, next_sentence_loss = pair_losses(model, **inputs)
        return {
            "loss": masked_loss + next_sentence_loss,
            "masked_loss": masked_loss,
            "next_sentence_loss": next_sentence_loss,
        }

    def causal_from_model(input_ids: Int[Tensor, "batch token"]) -> dict[str, Tensor]:
        # Weights that are spread over processes are together only while their module is called.
        return {
            "loss": type(model).forward(model, input_ids=input_ids, labels=input_ids, use_cache=False).loss
        }

    if recipe.objective == "causal":
        model.forward = causal_from_model if recipe.training.fsdp else causal
    elif recipe.objective == "pairs":
        model.forward = pairs


def _unwrap_model(trainer: Trainer, model: PreTrainedModel, recipe: Recipe) -> PreTrainedModel:
    """Return the trained model as transformers made it, complete in this process."""
    if trainer.is_fsdp_enabled:
        weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        model = init_model(recipe)
        if trainer.is_world_process_zero():
            model.load_state_dict(weights, strict=False)
    model.__dict__.pop("forward", None)
    return model.eval()


def _describe_hardware(precision: str) -> str:
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    products = "bfloat16" if uses_bfloat16(precision, torch.device("cpu")) else "float32"
    return f"{plural(torch.get_num_threads(), 'CPU thread')}, products in {products}"
