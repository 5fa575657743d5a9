"""A model's body with a head on it."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models._heads import body_and_head
from sonde.training.compiling import check_compiler, compile_body
from sonde.training.finetuning.batches import Batch
from sonde.training.finetuning.data import SECOND, Data, reader_of
from sonde.training.finetuning.heads import ClassHead, Head, OwnHead, PointerHead, States, TokenHead
from sonde.training.finetuning.lora import with_lora
from sonde.training.finetuning.own import own_classifier
from sonde.training.finetuning.recipe import BALANCED, BFLOAT16, FLOAT32, POOLED, FineTuning


class HeadedModel(nn.Module):
    """A body whose states a head reads.

    Args:
        body: From a `Batch` to the states of its subwords; under an `OwnHead` to logits.
        head: What reads the states.
        frozen: Whether the body stays as it is.
        half: Whether the body is held in half precision, so that products are taken in it.
    """

    def __init__(self, body: nn.Module, head: Head, *, frozen: bool, half: bool = False) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self._frozen, self._half = frozen, half
        if frozen:
            self.body.requires_grad_(requires_grad=False)
        for part in body.fresh if isinstance(body, OwnBody) else ():
            part.requires_grad_()

    def train(self, mode: bool = True) -> HeadedModel:
        """Training mode; a frozen body drops nothing out."""
        super().train(mode)
        if self._frozen:
            self.body.eval()
        return self

    def read(self, batch: Batch) -> Tensor:
        """What the body makes of a batch, in single precision."""
        if not self._half:
            return self.body(batch).float()
        with torch.autocast(batch.ids.device.type, torch.bfloat16):
            return self.body(batch).float()

    def forward(self, batch: Batch) -> Tensor:
        """What the head makes of the states."""
        return self.head(self.read(batch), batch)

    def answers(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """What the head makes of the states, in single precision, and where it looks if it can say."""
        states = self.read(batch)
        logits = self.head(states, batch).float()
        places = self.head.places(states, batch, logits) if isinstance(self.head, TokenHead) else None
        return logits, places


class LoadedBody(nn.Module):
    """The part of a loaded model that reads.

    Args:
        loaded: The model; its own head takes no part.
        inner: What is called in place of its body.
    """

    def __init__(self, loaded: LoadedModel, inner: Any = None) -> None:
        super().__init__()
        self.inner = body_of(loaded) if inner is None else inner
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
        return self.given(self.inner(**arguments))

    def given(self, output: Any) -> Tensor:
        """What is taken of the body's output."""
        return output.last_hidden_state


class OwnBody(LoadedBody):
    """A classifier of transformers with its own head; gives logits.

    Args:
        loaded: The model that it was made of.
        inner: The classifier.

    Attributes:
        fresh: Its parts that the checkpoint does not hold, which are trained even where the body is frozen.
    """

    def __init__(self, loaded: LoadedModel, inner: Any) -> None:
        super().__init__(loaded, inner)
        body = getattr(inner, inner.base_model_prefix)
        pooler = getattr(body, "pooler", None)
        # A tuple: to torch they are parts of the classifier and no second ones.
        self.fresh = (
            *(part for part in inner.children() if part is not body),
            *([] if pooler is None else [pooler]),
        )

    def given(self, output: Any) -> Tensor:
        """The logits."""
        return output.logits


def segments(batch: Batch) -> Tensor:
    """1 from the second text on, 0 before it."""
    return ((batch.part == SECOND).cumsum(1) > 0).long() * (batch.part >= 0)


def body_of(loaded: LoadedModel) -> Any:
    """The part of a model that reads: all but its head; of an encoder-decoder the encoder."""
    if loaded.capabilities.kind == "encoder-decoder":
        return loaded.model.get_encoder()
    return body_and_head(loaded)[0]


def load_for_training(spec: ModelSpec, weights: str = FLOAT32) -> LoadedModel:
    """A model in single precision, whatever it was saved in: small steps vanish in half precision.

    Args:
        spec: The model.
        weights: What they are held in, where they do not move.
    """
    return load_model(dataclasses.replace(spec, dtype=weights))


def headed(loaded: LoadedModel, data: Data, recipe: FineTuning) -> HeadedModel:
    """A model with a fresh head for some data.

    Raises:
        UsageError: The limit is longer than the model can read, or too short for any text; or options that
            exclude each other.
        InputError: The examples have one class only.
    """
    _check(recipe)
    capabilities = loaded.capabilities
    reader = reader_of(loaded.tokenizer, loaded.special, capabilities.kind)
    reader.check(recipe.length, capabilities.context, loaded.spec.name)
    whole, pointed = summaries(loaded)
    own = own_classifier(loaded, data.classes, recipe) if _takes_own(data, recipe) else None
    body = LoadedBody(loaded) if own is None else OwnBody(loaded, own)
    reads = body.inner if own is None else getattr(own, own.base_model_prefix)
    if recipe.lora_rank:
        with_lora(reads, recipe)
    if recipe.recompute:
        body.inner.gradient_checkpointing_enable({"use_reentrant": False})
    if own is None:
        head = head_for(data, recipe, capabilities.d_model, whole, pointed)
    else:
        _check_classes(data)
        head = OwnHead(len(data.classes), class_weights(data, recipe))
    half = recipe.weights == BFLOAT16
    if recipe.compile:
        compile_body(reads)
    for part in body.fresh if isinstance(body, OwnBody) else ():
        part.float()
    body.requires_grad_()
    model = HeadedModel(body, head.to(loaded.device), frozen=recipe.frozen, half=half)
    if recipe.lora_rank:
        parts = body.fresh if isinstance(body, OwnBody) else ()
        fresh = {id(weight) for part in parts for weight in part.parameters()}
        for name, weight in body.named_parameters():
            weight.requires_grad_("lora_" in name or id(weight) in fresh)
    return model


def summaries(loaded: LoadedModel) -> tuple[str, str]:
    """What sums a text up for a class, and for a pointer, where no pooling is named."""
    if loaded.capabilities.kind == "decoder":
        return "last", "last"
    return "mean", "first" if loaded.special.prefix else "mean"


def _check(recipe: FineTuning) -> None:
    if recipe.lora_rank and (recipe.frozen or recipe.pointer_epochs):
        other = "frozen" if recipe.frozen else "pointer_epochs"
        raise UsageError(
            "finetune.lora_rank trains matrices beside a body that stays as it is; leave out "
            f"finetune.{other}"
        )
    if recipe.fsdp and (recipe.processes < 2 or recipe.pointer_epochs or recipe.weights == BFLOAT16):
        raise UsageError(
            "finetune.fsdp shares a model of single precision out among processes: give finetune.processes "
            "2 or more, and leave out finetune.pointer_epochs and finetune.weights"
        )
    if recipe.compile:
        if recipe.fsdp:
            raise UsageError(
                "finetune.compile: a model that fsdp shares out is not compiled; leave out either"
            )
        check_compiler("finetune.compile")
    if recipe.weights == BFLOAT16 and not (recipe.lora_rank or recipe.frozen):
        raise UsageError(
            "finetune.weights = bfloat16: small steps vanish in half precision; train beside the weights "
            "with finetune.lora_rank=16, or the head alone with finetune.frozen=true"
        )


def _takes_own(data: Data, recipe: FineTuning) -> bool:
    """Whether the classifier of transformers is asked for: no pooling is named, and nothing is pointed at."""
    pair = data.train[0].second is not None
    return data.train[0].candidates is None and recipe.pooling == "auto" and (pair or recipe.head == POOLED)


def _check_classes(data: Data) -> None:
    if len(data.classes) < 2:
        raise InputError(f"there is nothing to tell apart: all examples are {''.join(data.classes)!r}")


def class_weights(data: Data, recipe: FineTuning) -> Tensor | None:
    """What each class weighs in the loss, 1 on average over the training examples; None for all the same."""
    if recipe.class_weights != BALANCED:
        return None
    counts = Counter(sample.target for sample in data.train)
    return torch.tensor(
        [len(data.train) / (len(counts) * max(1, counts[klass])) for klass in range(len(data.classes))]
    )


def head_for(data: Data, recipe: FineTuning, width: int, whole: str, pointed: str) -> Head:
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
    _check_classes(data)
    first = data.train[0]
    auto = recipe.pooling == "auto"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("head", recipe.seed) % 2**63)
        if first.candidates is not None:
            return PointerHead(width, pointed if auto else recipe.pooling, recipe)
        pair, weights = first.second is not None, class_weights(data, recipe)
        if recipe.head != POOLED and not pair:
            return TokenHead(width, len(data.classes), recipe.head, recipe.dropout, weights)
        summary = whole if auto else recipe.pooling
        return ClassHead(width, len(data.classes), summary, pair, recipe.dropout, weights)
