"""Checkpoints: everything that training resumes from; a kill leaves the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from sonde.base.errors import InputError, StoreError
from sonde.models.engine.silence import format_error
from sonde.training.finetune.distributed import (
    gather_tensors,
    is_main_process,
    shard_optimiser_state,
    shard_weights,
)


@dataclass(slots=True)
class Epoch:
    """Results of an epoch.

    Attributes:
        epoch: Its number, from 1.
        loss: Mean training loss.
        valid: What is right on validation.
        valid_loss: Mean negative logarithm of the right answers' probability on validation, nats.
    """

    epoch: int
    loss: float
    valid: float
    valid_loss: float

    @property
    def merit(self) -> tuple[float, float]:
        """Criterion for epochs and settings: the share of right answers, then the smaller loss.

        A pointer says "nothing is wrong" to everything at first, with an equal share epoch after epoch,
        while its loss falls already.
        """
        return self.valid, -self.valid_loss


@dataclass(slots=True)
class TrainingState:
    """Progress of a training.

    Attributes:
        epoch: Epochs done.
        position: Batches done of the next one.
        step: Updates done.
        total: Sum of the losses of the epoch at work, an example each.
        history: Every epoch done.
    """

    epoch: int = 0
    position: int = 0
    step: int = 0
    total: float = 0.0
    history: list[Epoch] = field(default_factory=list[Epoch])

    @property
    def best(self) -> Epoch | None:
        """The best epoch, the first of equals; None before the first."""
        return select_best_epoch(self.history) if self.history else None


def select_best_epoch(history: Sequence[Epoch]) -> Epoch:
    """Select the best epoch, the first of equals."""
    return max(history, key=lambda epoch: epoch.merit)


def write_checkpoint(
    path: Path, course: TrainingState, model: torch.nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Write a checkpoint in the place of the last one; of several processes the first does.

    Raises:
        StoreError: It could not be written; the last one stands.
    """
    tensors = gather_tensors({"model": trainable_state(model), "optimiser": optimiser.state_dict()})
    state = {"course": asdict(course), **tensors, **get_random_state()}
    if is_main_process():
        replace_file(path, lambda temporary: torch.save(state, temporary))


def read_checkpoint(path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> TrainingState:
    """Take a checkpoint up: weights, optimiser and random numbers; a new course where there is none.

    Raises:
        InputError: It is of another architecture.
    """
    if not path.is_file():
        return TrainingState()
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    try:
        restore_state(model, state["model"])
        optimiser.load_state_dict(shard_optimiser_state(state["optimiser"], optimiser))
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(f"checkpoint {path} is of another architecture; delete it and run again") from error
    set_random_state(state)
    course = dict(state["course"])
    history = [Epoch(**epoch) for epoch in course.pop("history")]
    return TrainingState(**course, history=history)


def get_random_state() -> dict[str, Any]:
    """Return the state of this process's random numbers, on every device."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"random": torch.get_rng_state(), "random_cuda": cuda}


def set_random_state(state: Mapping[str, Any]) -> None:
    """Take up what `get_random_state` gave."""
    torch.set_rng_state(state["random"])
    if state["random_cuda"]:
        torch.cuda.set_rng_state_all(state["random_cuda"])


def write_weights(path: Path, model: torch.nn.Module) -> None:
    """Write the weights of a body and its head that are trained; of several processes the first does.

    Raises:
        StoreError: They could not be written.
    """
    tensors = gather_tensors(trainable_state(model))
    if is_main_process():
        # Tied weights share their memory, which safetensors does not take.
        weights = {name: weight.detach().cpu().clone().contiguous() for name, weight in tensors.items()}
        replace_file(path, lambda temporary: save_file(weights, temporary))


def read_weights(path: Path, model: torch.nn.Module) -> None:
    """Take up what `write_weights` wrote."""
    restore_state(model, load_file(path))


def trainable_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights that training changes, and the buffers."""
    frozen_names = _frozen_names(model)
    return {name: weight for name, weight in model.state_dict().items() if name not in frozen_names}


def restore_state(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Take up what `trainable_state` gave.

    Raises:
        RuntimeError: They are another architecture's.
    """
    missing_keys, unexpected_keys = model.load_state_dict(shard_weights(weights, model), strict=False)
    if unexpected_keys or not set(missing_keys) <= _frozen_names(model):
        raise RuntimeError("weights of another architecture")


def _frozen_names(model: torch.nn.Module) -> set[str]:
    parameters = model.named_parameters(remove_duplicate=False)
    return {name for name, weight in parameters if not weight.requires_grad}


def replace_file(path: Path, save: Callable[[Path], object]) -> None:
    """Write a file beside its place and move it there when it is whole.

    Raises:
        StoreError: The disk is full, or the folder cannot be written; nothing at ``path`` has changed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(temporary)
        temporary.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:
        # PyTorch says RuntimeError where its writer runs out of space, safetensors has an error of its own.
        temporary.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {path}: {format_error(error)}; free space and run again; training resumes"
        ) from error
