"""A model's body with a head on it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.models import FAMILIES, LoadedModel, ModelSpec, load_model
from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.data import SECOND, Data, reader_of
from sonde.training.finetuning.heads import ClassHead, PointerHead, States
from sonde.training.finetuning.recipe import FineTuning


class HeadedModel(nn.Module):
    """A body whose states a head reads.

    Args:
        body: From a `Batch` to the states of its subwords.
        head: What reads the states.
        frozen: Whether the body stays as it is.
    """

    def __init__(self, body: nn.Module, head: ClassHead | PointerHead, *, frozen: bool) -> None:
        super().__init__()
        self.body = body
        self.body.requires_grad_(requires_grad=not frozen)
        self.head = head
        self._frozen = frozen

    def train(self, mode: bool = True) -> HeadedModel:
        """Training mode; a frozen body drops nothing out."""
        super().train(mode)
        if self._frozen:
            self.body.eval()
        return self

    def forward(self, batch: Batch) -> Tensor:
        """What the head makes of the states."""
        return self.head(self.body(batch), batch)


class LoadedBody(nn.Module):
    """The part of a loaded model that reads.

    Args:
        loaded: The model; its own head takes no part.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.inner = body_of(loaded)
        self._decoder = loaded.capabilities.kind == "decoder"
        takes = inspect.signature(self.inner.forward).parameters
        self._segments = "token_type_ids" in takes and getattr(self.inner.config, "type_vocab_size", 0) > 1

    def forward(self, batch: Batch) -> States:
        """The last layer's states."""
        arguments: dict[str, Any] = {"input_ids": batch.ids}
        if self._decoder:
            # Padding stands to the right, where no subword looks.
            arguments["use_cache"] = False
        else:
            arguments["attention_mask"] = (batch.part >= 0).long()
        if self._segments:
            arguments["token_type_ids"] = segments(batch)
        return self.inner(**arguments).last_hidden_state


def segments(batch: Batch) -> Tensor:
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
    reader = reader_of(loaded.tokenizer, loaded.special, capabilities.kind)
    reader.check(recipe.length, capabilities.context, loaded.spec.name)
    whole = "last" if capabilities.kind == "decoder" else "mean"
    pointed = "first" if capabilities.kind != "decoder" and loaded.special.prefix else whole
    head = head_for(data, recipe, capabilities.d_model, whole, pointed)
    device = loaded.device
    return HeadedModel(LoadedBody(loaded), head.to(device), frozen=recipe.frozen)


def head_for(data: Data, recipe: FineTuning, width: int, whole: str, pointed: str) -> ClassHead | PointerHead:
    """A fresh head for some data, drawn by the recipe's seed.

    Args:
        data: The examples.
        recipe: Its pooling decides what sums a text up, unless it is ``"auto"``.
        width: Of the states.
        whole: What sums a text up for a class.
        pointed: What sums a text up for a pointer.

    Raises:
        InputError: The examples have one class only.
    """
    if len(data.classes) < 2:
        raise InputError(f"there is nothing to tell apart: all examples are {''.join(data.classes)!r}")
    first = data.train[0]
    auto = recipe.pooling == "auto"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head", recipe.seed) % 2**63)
        if first.candidates is not None:
            return PointerHead(width, pointed if auto else recipe.pooling, recipe)
        pair = first.second is not None
        summary = whole if auto else recipe.pooling
        return ClassHead(width, len(data.classes), summary, pair, recipe.dropout)
