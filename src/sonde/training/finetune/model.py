"""Models for fine-tuning: a model's body with a head on it, LoRA, and classifiers of transformers.

A head reads a model's states: a class for the text, a class for two texts, or two pointers into the text. A
class is read from pooled states, or from each subword (`TokenHead`), since a bug stands in one place. If the
architecture has a classifier of its own in transformers, that one is trained (`OwnHead`): it is built from
the loaded model, and saved as a classifier again.

The pointer head is that of Vasic et al. 2019, as CuBERT has it: with states Y and their summary c,
``tanh(Y Wy + c Wh) w`` gives each place one logit for the error and one for its repair, without biases. Place
0 stands for the summary itself and says that nothing is wrong.

LoRA trains low-rank matrices next to those of a body, which stay as they are (Hu et al. 2022), by PEFT.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import json
import math
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import derive_seed
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models.engine.lm_head import body_and_head
from sonde.models.engine.load import save_model
from sonde.models.engine.silence import one_line_errors, silence_libraries
from sonde.training.finetune.batches import Batch
from sonde.training.finetune.data import FIRST, SECOND, TaskData, build_text_encoder
from sonde.training.finetune.recipe import BALANCED, BFLOAT16, FLOAT32, MAX, POOLED, FinetuneRecipe
from sonde.training.precision import check_compiler, compile_body

States = Float[Tensor, "example token d_model"]


MIN_PROBABILITY = 1e-10
"""Probabilities are cut off here before their logarithm, as in the published code."""


def summarise_states(
    pooling: str, states: States, part: Int[Tensor, "example token"], text: int = FIRST
) -> Float[Tensor, "example d_model"]:
    """Reduce states to one by a named pooling; the last and the first one are those of all texts.

    The last one is no padding. The mean, and the largest value by dimension, are over the subwords of a text,
    and 0 if it has none. A bug stands in one place: a mean over 128 subwords has a 128th of what says so.
    """
    if pooling == "last":
        last = (part >= 0).sum(1) - 1
        return states[torch.arange(len(states), device=states.device), last.clamp(min=0)]
    if pooling == "first":
        return states[:, 0]
    mask = part == text
    if pooling == "max":
        largest = states.masked_fill(~mask[..., None], -math.inf).amax(1)
        return largest.masked_fill(~mask.any(1)[:, None], 0.0)
    weights = mask.to(states.dtype)[..., None]
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


class _ClassifierHead(nn.Module):
    """Base of heads that predict classes: their number, and the loss.

    Args:
        classes: Number of classes.
        weights: What each weighs in the loss; None for all the same.
    """

    def __init__(self, classes: int, weights: Tensor | None) -> None:
        super().__init__()
        self.classes = classes
        self.weights: Tensor | None
        self.register_buffer("weights", weights, persistent=False)

    def loss(self, logits: Float[Tensor, "example klass"], batch: Batch) -> Float[Tensor, ""]:
        """Compute the mean cross-entropy over the examples, each with the weight of its class."""
        losses = functional.cross_entropy(logits.float(), batch.target, self.weights, reduction="none")
        return losses.mean()


class ClassHead(_ClassifierHead):
    """A class for a text, or for two.

    Args:
        width: Of the states.
        classes: Number of classes.
        pooling: ``"mean"``, ``"max"``, ``"last"`` or ``"first"``; the mean and the largest values of a pair
            are those of each text, side by side.
        pair: Whether there are two texts.
        dropout: Of what is read.
        weights: What each class weighs in the loss; None for all the same.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        pooling: str,
        pair: bool,
        dropout: float,
        weights: Tensor | None = None,
    ) -> None:
        super().__init__(classes, weights)
        self._pooling, self._pair = pooling, pair and pooling in ("mean", "max")
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width * (2 if self._pair else 1), classes)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example klass"]:
        """Compute the logits of the classes."""
        texts = (FIRST, SECOND) if self._pair else (FIRST,)
        read = torch.cat([summarise_states(self._pooling, states, batch.part, text) for text in texts], 1)
        return self.out(self.dropout(read))


class OwnHead(_ClassifierHead):
    """Stands for the head that a classifier of transformers has itself: hands its logits on."""

    def forward(self, logits: Float[Tensor, "example klass"], batch: Batch) -> Float[Tensor, "example klass"]:
        """Return the logits unchanged."""
        return logits


class TokenHead(_ClassifierHead):
    """A class for a text that is read subword by subword (Ilse, Tomczak and Welling 2018).

    With states h of the text's subwords, ``max`` gives each ``tanh(h V) W`` and takes of each class the
    largest over the subwords; ``attention`` takes the mean of the states with weights
    ``softmax(tanh(h V) a)``, and the class from that. Either says which subword it rests on most.

    Args:
        width: Of the states.
        classes: Number of classes.
        method: ``"max"`` or ``"attention"``.
        dropout: Of what is read.
        weights: What each class weighs in the loss; None for all the same.
    """

    def __init__(
        self, width: int, classes: int, method: str, dropout: float, weights: Tensor | None = None
    ) -> None:
        super().__init__(classes, weights)
        self._max = method == MAX
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, classes)
        self.attention = None if self._max else nn.Linear(width, 1, bias=False)
        for layer in (self.hidden, self.attention):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example klass"]:
        """Compute the logits of the classes."""
        if self.attention is None:
            return self._token_logits(states, batch).amax(1)
        weights = self._weights(states, batch)[..., None]
        return self.out(self.dropout((states * weights).sum(1)))

    def find_evidence(
        self, states: States, batch: Batch, logits: Float[Tensor, "example klass"]
    ) -> Int[Tensor, " example"]:
        """Return the subword that supports the likeliest class most, counted from 0."""
        if self.attention is not None:
            return self._weights(states, batch).argmax(1)
        token_logits, rows = (
            self._token_logits(states, batch),
            torch.arange(len(states), device=states.device),
        )
        return token_logits[rows, :, logits.argmax(1)].argmax(1)

    def _token_logits(self, states: States, batch: Batch) -> Float[Tensor, "example token klass"]:
        logits = self.out(torch.tanh(self.hidden(self.dropout(states))))
        return logits.float().masked_fill(~_read(batch)[..., None], -math.inf)

    def _weights(self, states: States, batch: Batch) -> Float[Tensor, "example token"]:
        assert self.attention is not None
        scores = self.attention(torch.tanh(self.hidden(self.dropout(states))))[..., 0]
        return scores.float().masked_fill(~_read(batch), -math.inf).softmax(1)


def _read(batch: Batch) -> Tensor:
    """Return the mask of a text's subwords; for an empty text, of the ids around it."""
    text = batch.part == FIRST
    return torch.where(text.any(1)[:, None], text, batch.part >= 0)


class PointerHead(nn.Module):
    """Two pointers: to the error, and to what is right in its place.

    Args:
        width: Of the states.
        summary: Which state sums the text up: ``"first"``, ``"last"``, ``"mean"`` or ``"max"``.
        recipe: Its quirks, and the width that inputs are padded to as published.
    """

    def __init__(self, width: int, summary: str, recipe: FinetuneRecipe) -> None:
        super().__init__()
        self._summary, self._recipe = summary, recipe
        self.dropout = nn.Dropout(recipe.dropout)
        self.states = nn.Linear(width, width, bias=False)
        self.whole = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, 2, bias=False)
        for layer in (self.states, self.whole, self.out):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, states: States, batch: Batch) -> Float[Tensor, "example pointer place"]:
        """Compute the log-probability of each place, for the error and for the repair."""
        text_state = summarise_states(self._summary, states, batch.part)
        candidate_states = self.dropout(torch.cat([text_state[:, None], states], 1))
        logits = self.out(
            torch.tanh(self.states(candidate_states) + self.whole(text_state)[:, None])
        ).mT.float()
        if self._recipe.masked_zero:
            logits = logits * batch.candidates[:, None]
            # As published every input is as long as the limit, and each of its places takes part.
            missing = max(0, self._recipe.length + 1 - logits.shape[-1])
            return functional.pad(logits, (0, missing)).log_softmax(-1)
        return logits.masked_fill(~batch.candidates[:, None], -math.inf).log_softmax(-1)

    def loss(self, logs: Float[Tensor, "example pointer place"], batch: Batch) -> Float[Tensor, ""]:
        """Compute the mean loss of error and repair; what is beyond the limit has none."""
        rows = torch.arange(len(logs), device=logs.device)
        if self._recipe.sum_of_logs:
            # Cut off before the logarithm, as in the published code.
            logs = logs.clamp(min=math.log(MIN_PROBABILITY))
        has_location = batch.location >= 0
        location_loss = -logs[rows, 0, batch.location.clamp(min=0)][has_location]
        repairs = functional.pad(batch.repairs, (0, logs.shape[-1] - batch.repairs.shape[-1]))
        has_repair = repairs.any(1) & (batch.location > 0)
        repair_logs, repairs = logs[has_repair, 1], repairs[has_repair]
        if self._recipe.sum_of_logs:
            repair_loss = -(repair_logs * repairs).sum(1)
        else:
            repair_loss = -repair_logs.masked_fill(~repairs, -math.inf).logsumexp(-1)
        return (location_loss.sum() + repair_loss.sum()) / len(logs)


Head = ClassHead | OwnHead | TokenHead | PointerHead
"""What stands on a body."""


def with_lora(body: Any, recipe: FinetuneRecipe) -> None:
    """Put matrices beside all linear layers of a body; at first they change nothing.

    Args:
        body: The body of a model, changed in place.
        recipe: Rank, factor, dropout, and the seed of the first matrices.

    Raises:
        UsageError: PEFT is not installed.
        InputError: PEFT does not take the body.
    """
    if find_spec("peft") is None:
        raise UsageError("finetune.lora_rank needs PEFT: pip install 'sonde[peft]'")
    peft: Any = importlib.import_module("peft")
    settings = peft.LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules="all-linear",
    )
    subject = f"LoRA does not fit {type(body).__name__}"
    with one_line_errors(subject, (ValueError,)), use_seed(derive_seed("lora", recipe.seed)):
        peft.inject_adapter_in_model(settings, body)
    for name, weight in body.named_parameters():
        if "lora_" in name:
            # What is trained takes small steps.
            weight.data = weight.data.float()


def merge_lora(model: torch.nn.Module) -> None:
    """Make the matrices part of the weights beside which they stand, and take them away."""
    for path, layer in list(model.named_modules()):
        if hasattr(layer, "merge") and hasattr(layer, "base_layer"):
            lora_layer: Any = layer
            lora_layer.merge(safe_merge=True)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, lora_layer.get_base_layer())


_DROPOUTS = ("classifier_dropout", "cls_dropout", "seq_classif_dropout", "classif_dropout")


def build_sequence_classifier(
    loaded_model: LoadedModel, classes: Sequence[str], recipe: FinetuneRecipe
) -> Any | None:
    """Build the class that ``AutoModelForSequenceClassification`` picks, on the loaded body.

    Args:
        loaded_model: The model; the weights that both have are shared with it.
        classes: Names of the classes, in their order.
        recipe: The dropout before the last layer, and the seed of what the checkpoint does not hold.

    Returns:
        The classifier; None where transformers has none for it, one that is not made of this body, or one
        that reads the sign before a text where the tokenizer puts none.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING as KNOWN

    config = loaded_model.model.config
    if loaded_model.capabilities.kind == "encoder-decoder" or getattr(config, "auto_map", None):
        return None
    classifier_class: Any = KNOWN.get(type(config), None)
    has_pooling = hasattr(config, "classifier_pooling") or loaded_model.capabilities.kind == "decoder"
    if classifier_class is None or not (has_pooling or loaded_model.special.prefix):
        # Such classifiers read the first subword, which here is the text's own.
        return None
    config = copy.deepcopy(config)
    config.num_labels = len(classes)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: index for index, name in enumerate(classes)}
    config.problem_type = "single_label_classification"
    # Decoders are read at the last subword that is no padding.
    config.pad_token_id = loaded_model.special.pad
    for name in _DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, recipe.dropout)
    if hasattr(config, "classifier_pooling"):
        config.classifier_pooling = "mean"
    with use_seed(derive_seed("head", recipe.seed)), silence_libraries():
        classifier = classifier_class._from_config(config, attn_implementation=config._attn_implementation)
    classifier = classifier.to(loaded_model.device, loaded_model.model.dtype)
    body_state, classifier_state = loaded_model.model.state_dict(), classifier.state_dict()
    prefix = f"{classifier.base_model_prefix}."
    shared_weights = {
        name: weight
        for name, weight in body_state.items()
        if name in classifier_state and classifier_state[name].shape == weight.shape
    }
    missing_names = [name for name in body_state if name.startswith(prefix) and name not in shared_weights]
    if missing_names or not any(name.startswith(prefix) for name in shared_weights):
        return None
    classifier.load_state_dict(shared_weights, strict=False, assign=True)
    return classifier.requires_grad_().eval()


def save_classifier(classifier: Any, loaded_model: LoadedModel, folder: Path) -> None:
    """Save a classifier, with the head that the model had before where it has kept one.

    The files then hold both: transformers reads the classifier, and sonde's lenses read the language model.
    Architectures whose two heads share weights (ModernBERT) have lost the old one.

    Args:
        classifier: The classifier.
        loaded_model: The model that it was made of.
        folder: Where to.
    """
    state, old = classifier.state_dict(), loaded_model.model.state_dict()
    prefix = f"{classifier.base_model_prefix}."
    replaces_head = any(name in state and not name.startswith(prefix) for name in old)
    # What is a second name of another weight is made again when the model is read.
    tied_names = set(getattr(loaded_model.model, "all_tied_weights_keys", None) or ())
    extra_weights = {
        name: weight for name, weight in old.items() if name not in state and name not in tied_names
    }
    # What was drawn where the files held no head is none.
    keeps_head = not replaces_head and loaded_model.capabilities.head
    has_both_heads = keeps_head and bool(extra_weights)
    with silence_libraries():
        classifier.save_pretrained(folder, state_dict=state | (extra_weights if has_both_heads else {}))
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    tied = loaded_model.model.config.tie_word_embeddings and keeps_head
    if has_both_heads or tied:
        config["architectures"] = [type(classifier).__name__, type(loaded_model.model).__name__]
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def save_body(body: nn.Module, loaded_model: LoadedModel, folder: Path) -> None:
    """Save a trained body as a model of transformers, with its tokenizer.

    Args:
        body: The body, with a head of transformers' own or without.
        loaded_model: The model that it was made of.
        folder: Where to.
    """
    if isinstance(body, LoadedBody) and body.is_classifier:
        save_classifier(body.inner, loaded_model, folder)
    else:
        save_model(loaded_model, folder)
    loaded_model.tokenizer.save_pretrained(folder)


@contextmanager
def use_seed(seed: int, *, on_devices: bool = False) -> Generator[None]:
    """Draw random numbers from a seed in this context; what is drawn after it does not depend on it.

    Args:
        seed: The seed.
        on_devices: Whether numbers are drawn on accelerators too.
    """
    with torch.random.fork_rng(devices=None if on_devices else []):
        torch.manual_seed(seed % 2**63)
        yield


class HeadedModel(nn.Module):
    """A body whose states a head reads.

    Args:
        body: From a `Batch` to the states of its subwords; under an `OwnHead` to logits.
        head: What reads the states.
        frozen: Whether the body stays as it is.
        half_precision: Whether the body is held in half precision, so that products are taken in it.
    """

    def __init__(self, body: nn.Module, head: Head, *, frozen: bool, half_precision: bool = False) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self._frozen, self._half = frozen, half_precision
        if frozen:
            self.body.requires_grad_(requires_grad=False)
        for part in getattr(body, "fresh", ()):
            part.requires_grad_()

    def train(self, mode: bool = True) -> HeadedModel:
        """Set the training mode; a frozen body drops nothing out."""
        super().train(mode)
        if self._frozen:
            self.body.eval()
        return self

    def read(self, batch: Batch) -> Tensor:
        """Run the body on a batch, and return its output in single precision."""
        if not self._half:
            return self.body(batch).float()
        with torch.autocast(batch.ids.device.type, torch.bfloat16):
            return self.body(batch).float()

    def forward(self, batch: Batch) -> Tensor:
        """Run body and head on a batch."""
        return self.head(self.read(batch), batch)

    def answers(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the head's output in single precision, and the supporting subword if the head finds one."""
        states = self.read(batch)
        logits = self.head(states, batch).float()
        evidence = (
            self.head.find_evidence(states, batch, logits) if isinstance(self.head, TokenHead) else None
        )
        return logits, evidence


class LoadedBody(nn.Module):
    """The part of a loaded model that reads; with a classifier of transformers, that with its own head.

    Args:
        loaded_model: The model; its own head takes no part.
        classifier: The classifier that was made of it; gives logits instead of states.

    Attributes:
        inner: What is called.
        is_classifier: Whether it is a classifier.
    """

    def __init__(self, loaded_model: LoadedModel, classifier: Any = None) -> None:
        super().__init__()
        self.is_classifier = classifier is not None
        self.inner = classifier if self.is_classifier else get_body(loaded_model)
        self._decoder = loaded_model.capabilities.kind == "decoder"
        takes = inspect.signature(self.inner.forward).parameters
        self._segments = "token_type_ids" in takes and getattr(self.inner.config, "type_vocab_size", 0) > 1

    @property
    def reader(self) -> Any:
        """Return what computes the states, without a head."""
        return getattr(self.inner, self.inner.base_model_prefix) if self.is_classifier else self.inner

    @property
    def fresh(self) -> list[nn.Module]:
        """Return parts that the checkpoint does not hold, which are trained even where the body is frozen."""
        if not self.is_classifier:
            return []
        heads = [part for part in self.inner.children() if part is not self.reader]
        return [part for part in (*heads, getattr(self.reader, "pooler", None)) if part is not None]

    def forward(self, batch: Batch) -> Tensor:
        """Compute the last layer's states, or the logits of a classifier."""
        arguments: dict[str, Any] = {"input_ids": batch.ids}
        if self._decoder:
            # Padding stands to the right, where no subword looks.
            arguments["use_cache"] = False
        else:
            arguments["attention_mask"] = (batch.part >= 0).long()
        if self._segments:
            arguments["token_type_ids"] = segment_ids(batch)
        output = self.inner(**arguments)
        return output.logits if self.is_classifier else output.last_hidden_state


def segment_ids(batch: Batch) -> Tensor:
    """Return segment ids: 1 from the second text on, 0 before it."""
    return ((batch.part == SECOND).cumsum(1) > 0).long() * (batch.part >= 0)


def get_body(loaded_model: LoadedModel) -> Any:
    """Return a model without its head; of an encoder-decoder the encoder."""
    if loaded_model.capabilities.kind == "encoder-decoder":
        return loaded_model.model.get_encoder()
    return body_and_head(loaded_model)[0]


def load_for_training(spec: ModelSpec, weights: str = FLOAT32) -> LoadedModel:
    """Load a model in single precision, however it was saved: half precision loses small steps.

    Args:
        spec: The model.
        weights: What they are held in, where they do not move.
    """
    return load_model(dataclasses.replace(spec, dtype=weights))


def build_headed_model(loaded_model: LoadedModel, data: TaskData, recipe: FinetuneRecipe) -> HeadedModel:
    """Build a model with a fresh head for some data.

    Raises:
        UsageError: The limit is longer than the model can read, or too short for any text; or options that
            exclude each other.
        InputError: The examples have one class only.
    """
    _check_recipe(recipe)
    capabilities = loaded_model.capabilities
    reader = build_text_encoder(loaded_model.tokenizer, loaded_model.special, capabilities.kind)
    reader.check(recipe.length, capabilities.context, loaded_model.spec.name)
    class_pooling, pointer_pooling = default_poolings(loaded_model)
    classifier = (
        build_sequence_classifier(loaded_model, data.classes, recipe)
        if _uses_sequence_classifier(data, recipe)
        else None
    )
    body = LoadedBody(loaded_model, classifier)
    if recipe.lora_rank:
        with_lora(body.reader, recipe)
    if recipe.recompute:
        body.inner.gradient_checkpointing_enable({"use_reentrant": False})
    if classifier is None:
        head = build_head(data, recipe, capabilities.d_model, class_pooling, pointer_pooling)
    else:
        _check_classes(data)
        head = OwnHead(len(data.classes), compute_class_weights(data, recipe))
    half_precision = recipe.weights == BFLOAT16
    if recipe.compile:
        compile_body(body.reader)
    for part in body.fresh:
        part.float()
    body.requires_grad_()
    model = HeadedModel(
        body, head.to(loaded_model.device), frozen=recipe.frozen, half_precision=half_precision
    )
    if recipe.lora_rank:
        fresh_ids = {id(weight) for part in body.fresh for weight in part.parameters()}
        for name, weight in body.named_parameters():
            weight.requires_grad_("lora_" in name or id(weight) in fresh_ids)
    return model


def default_poolings(loaded_model: LoadedModel) -> tuple[str, str]:
    """Return the default poolings for a class and for a pointer."""
    if loaded_model.capabilities.kind == "decoder":
        return "last", "last"
    return "mean", "first" if loaded_model.special.prefix else "mean"


def _check_recipe(recipe: FinetuneRecipe) -> None:
    if recipe.lora_rank and (recipe.frozen or recipe.pointer_epochs):
        option = "frozen" if recipe.frozen else "pointer_epochs"
        raise UsageError(
            f"finetune.lora_rank trains small matrices and freezes the body; leave out finetune.{option}"
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
            "finetune.weights = bfloat16: small steps vanish in half precision; train LoRA with "
            "finetune.lora_rank=16, or only the head with finetune.frozen=true"
        )


def _uses_sequence_classifier(data: TaskData, recipe: FinetuneRecipe) -> bool:
    """Return whether transformers' classifier is used: no pooling is named, and there is no pointer."""
    pair = data.train[0].second is not None
    return data.train[0].candidates is None and recipe.pooling == "auto" and (pair or recipe.head == POOLED)


def _check_classes(data: TaskData) -> None:
    if len(data.classes) < 2:
        raise InputError(f"there is nothing to classify: all examples are {''.join(data.classes)!r}")


def compute_class_weights(data: TaskData, recipe: FinetuneRecipe) -> Tensor | None:
    """Compute each class's weight in the loss, 1 on average over the examples; None if all are equal."""
    if recipe.class_weights != BALANCED:
        return None
    counts = Counter(sample.target for sample in data.train)
    return torch.tensor(
        [len(data.train) / (len(counts) * max(1, counts[klass])) for klass in range(len(data.classes))]
    )


def build_head(
    data: TaskData, recipe: FinetuneRecipe, width: int, class_pooling: str, pointer_pooling: str
) -> Head:
    """Build a fresh head for some data, drawn by the recipe's seed.

    Args:
        data: The examples.
        recipe: Its pooling decides what sums a text up, unless it is ``"auto"``.
        width: Of the states.
        class_pooling: What sums a text up for a class.
        pointer_pooling: What sums a text up for a pointer.

    Raises:
        InputError: The examples have one class only.
    """
    _check_classes(data)
    first = data.train[0]
    auto = recipe.pooling == "auto"
    with use_seed(derive_seed("head", recipe.seed)):
        if first.candidates is not None:
            return PointerHead(width, pointer_pooling if auto else recipe.pooling, recipe)
        pair, weights = first.second is not None, compute_class_weights(data, recipe)
        if recipe.head != POOLED and not pair:
            return TokenHead(width, len(data.classes), recipe.head, recipe.dropout, weights)
        summary = class_pooling if auto else recipe.pooling
        return ClassHead(width, len(data.classes), summary, pair, recipe.dropout, weights)
