"""A model's body with a head on it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models import FAMILIES, LoadedModel, ModelSpec, load_model
from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.data import SECOND, Data
from sonde.training.finetuning.heads import ClassHead, PointerHead
from sonde.training.finetuning.recipe import FineTuning

POOLINGS = ("auto", "mean", "last", "first")


class HeadedModel(nn.Module):
    """A body whose states a head reads.

    Args:
        loaded: The model; its own head takes no part.
        head: What reads the states.
        frozen: Whether the body stays as it is.
    """

    def __init__(self, loaded: LoadedModel, head: ClassHead | PointerHead, *, frozen: bool) -> None:
        super().__init__()
        self.body = body_of(loaded)
        self.body.requires_grad_(requires_grad=not frozen)
        self.head = head
        self._frozen = frozen
        self._decoder = loaded.capabilities.kind == "decoder"
        takes = inspect.signature(self.body.forward).parameters
        self._segments = "token_type_ids" in takes and getattr(self.body.config, "type_vocab_size", 0) > 1

    def train(self, mode: bool = True) -> HeadedModel:
        """Training mode; a frozen body drops nothing out."""
        super().train(mode)
        if self._frozen:
            self.body.eval()
        return self

    def forward(self, batch: Batch) -> Tensor:
        """What the head makes of the states."""
        arguments: dict[str, Any] = {"input_ids": batch.ids}
        if self._decoder:
            # Padding stands to the right, where no subword looks.
            arguments["use_cache"] = False
        else:
            arguments["attention_mask"] = (batch.part >= 0).long()
        if self._segments:
            arguments["token_type_ids"] = _segments(batch)
        return self.head(self.body(**arguments).last_hidden_state, batch)


def _segments(batch: Batch) -> Tensor:
    """1 from the second text on, 0 before it."""
    return ((batch.part == SECOND).cumsum(1) > 0).long() * (batch.part >= 0)


def body_of(loaded: LoadedModel) -> Any:
    """The part of a model that reads: all but its head; of an encoder-decoder the encoder."""
    if loaded.capabilities.kind == "encoder-decoder":
        return loaded.model.get_encoder()
    return FAMILIES.load(loaded.family).body_and_head(loaded.model)[0]


def load_for_training(spec: ModelSpec) -> LoadedModel:
    """A model in single precision, whatever it was saved in: small steps vanish in half precision."""
    return load_model(dataclasses.replace(spec, dtype="float32"))


def headed(loaded: LoadedModel, data: Data, recipe: FineTuning) -> HeadedModel:
    """A model with a fresh head for some data.

    Raises:
        UsageError: The limit is longer than the model can read, or too short for any text.
        InputError: The examples have one class only.
    """
    capabilities = loaded.capabilities
    around = len(loaded.special.prefix) + 2 * len(loaded.special.suffix) + 2
    if not around < recipe.length <= capabilities.context:
        raise UsageError(
            f"length {recipe.length}: model {loaded.spec.name!r} reads {around + 1} to "
            f"{capabilities.context} subwords; give a length among them"
        )
    if len(data.classes) < 2:
        raise InputError(f"there is nothing to tell apart: all examples are {''.join(data.classes)!r}")
    summary = recipe.pooling
    if summary == "auto":
        summary = "last" if capabilities.kind == "decoder" else "mean"
    first = data.train[0]
    width = capabilities.d_model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head", recipe.seed) % 2**63)
        if first.candidates is None:
            head: ClassHead | PointerHead = ClassHead(
                width, len(data.classes), summary, first.second is not None, recipe.dropout
            )
        else:
            if recipe.pooling == "auto" and capabilities.kind != "decoder" and loaded.special.prefix:
                summary = "first"
            head = PointerHead(width, summary, recipe)
    device = next(loaded.model.parameters()).device
    return HeadedModel(loaded, head.to(device), frozen=recipe.frozen)
