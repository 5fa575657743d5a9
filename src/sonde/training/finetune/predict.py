"""Predictions of fine-tuned models for examples, and fine-tuned models read from and saved to folders.

    model = sonde.FineTuned.from_pretrained("RUN/trained/KEY/model")
    model.tell(["def f(a, b): return a + a"])[0].chances

A pooled classifier is one of transformers, and ``AutoModelForSequenceClassification`` reads the same folder.
Heads that read subword by subword, and pointers, have classes of their own here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sonde.base.errors import InputError, UsageError
from sonde.models import LoadedModel, ModelSpec
from sonde.models.engine.silence import silence_libraries
from sonde.training.finetune.batches import Batch, MicroBatches, batch_by_length, collate
from sonde.training.finetune.data import (
    EncodedExample,
    Sample,
    Span,
    TaskData,
    TextEncoder,
    build_text_encoder,
    encode_samples,
    find_candidate,
)
from sonde.training.finetune.model import (
    MIN_PROBABILITY,
    Head,
    HeadedModel,
    LoadedBody,
    OwnHead,
    PointerHead,
    TokenHead,
    build_head,
    default_poolings,
    load_for_training,
    save_body,
)
from sonde.training.finetune.pointing import find_word
from sonde.training.finetune.recipe import EQUAL, FLOAT32, FinetuneRecipe

_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class ExamplePredictions:
    """Answers in the order of the examples.

    Attributes:
        predicted: Class of each example; of a pointer 0 where it points at nothing, else 1.
        probability: Of each class, or of nothing and something.
        correct: Whether all of it is right: the class, or both pointers.
        truncated: See `sonde.training.finetune.data.EncodedExample`.
        reached: Likewise.
        read: A hash of the subwords that are read: examples that share it cannot be told apart.
        chance: Probability of the right class, or of the right place of the error; not a number where none
            can be right, as for a class that was not trained on.
        located: Whether the error is pointed at; None without a pointer. An error beyond the limit is not,
            and where nothing is wrong, pointing at nothing is right.
        repaired: Whether a right repair is pointed at; likewise, and True where none is wanted.
        pointed: First and last character (exclusive) of what each pointer points at, the error's first; -1
            where it points at nothing, or at what the model puts around a text. Of a head that reads subword
            by subword, of what its answer rests on most; None of pooled states.
    """

    predicted: Int[np.ndarray, " example"]
    probability: Float[np.ndarray, "example klass"]
    correct: Bool[np.ndarray, " example"]
    truncated: Bool[np.ndarray, " example"]
    reached: tuple[bool | None, ...]
    read: tuple[str, ...]
    chance: Float[np.ndarray, " example"]
    located: Bool[np.ndarray, " example"] | None = None
    repaired: Bool[np.ndarray, " example"] | None = None
    pointed: Int[np.ndarray, "example pointer 2"] | None = None

    @property
    def share(self) -> float:
        """The task's own metric: the share of examples with everything right."""
        return float(self.correct.mean())

    @property
    def loss(self) -> float:
        """Mean negative log-probability of the right answers, in nats; it distinguishes equal shares."""
        chances = self.chance[~np.isnan(self.chance)]
        return float(-np.log(chances.clip(min=MIN_PROBABILITY)).mean()) if len(chances) else float("inf")


@torch.no_grad()
def predict_examples(
    model: HeadedModel,
    encoded_examples: Sequence[EncodedExample],
    pad: int,
    portions: MicroBatches | None = None,
) -> ExamplePredictions:
    """Ask a model; it is left in evaluation mode.

    Args:
        model: The model.
        encoded_examples: The examples.
        pad: Subword of padding.
        portions: How much is read at once; by default a batch, halved where it does not fit into memory.
    """
    model.eval()
    device = next(model.parameters()).device
    portions = portions or MicroBatches(device)
    size = len(encoded_examples)
    pointer = isinstance(model.head, PointerHead)
    width = 2 if isinstance(model.head, PointerHead) else model.head.classes
    probability = np.zeros((size, width))
    predictions = np.zeros(size, np.int64)
    location_correct, repair_correct = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    spans = np.full((size, 2, 2), -1)
    chance = np.full(size, np.nan)

    def read(portion: Sequence[int]) -> tuple[Batch, Tensor, Tensor | None]:
        batch = collate(portion, encoded_examples, pad, device)
        return batch, *model.answers(batch)

    batches = (
        portions.done(rows, encoded_examples, read) for rows in batch_by_length(encoded_examples, _AT_ONCE)
    )
    for rows, (batch, outputs, evidence) in chain.from_iterable(batches):
        shares = (outputs[:, 0].exp() if pointer else outputs.softmax(-1)).double().cpu().numpy()
        right = (batch.location if pointer else batch.target).cpu().numpy()
        chance[rows] = np.where(right >= 0, shares[np.arange(len(right)), right], np.nan)
        if not pointer:
            probability[rows], predictions[rows] = shares, shares.argmax(1)
            for row, position in zip(
                rows, [] if evidence is None else evidence.tolist(), strict=evidence is not None
            ):
                spans[row, 0] = _subword_span(encoded_examples[row], position)
            continue
        probability[rows] = np.stack([shares[:, 0], 1 - shares[:, 0]], 1)
        choices = outputs.argmax(-1).cpu().numpy()
        predictions[rows] = choices[:, 0] > 0
        for row, (position, repair) in zip(rows, choices.tolist(), strict=True):
            example = encoded_examples[row]
            location_correct[row] = position == example.location
            repair_correct[row] = repair in example.repairs or example.location == 0
            for pointer_index, candidate in enumerate((position, repair)):
                spans[row, pointer_index] = _subword_span(example, candidate - 1)
    targets = np.array([example.target for example in encoded_examples])
    return ExamplePredictions(
        predictions,
        probability,
        correct=location_correct & repair_correct if pointer else predictions == targets,
        truncated=np.array([example.truncated for example in encoded_examples]),
        reached=tuple(example.reached for example in encoded_examples),
        read=tuple(blake2b(example.ids.tobytes(), digest_size=8).hexdigest() for example in encoded_examples),
        chance=chance,
        located=location_correct if pointer else None,
        repaired=repair_correct if pointer else None,
        pointed=spans if pointer else spans[:, :1] if isinstance(model.head, TokenHead) else None,
    )


def _subword_span(example: EncodedExample, subword: int) -> tuple[int, int]:
    """Return the characters of a subword; as published, a pointer may also point into the padding."""
    if example.spans is None or not 0 <= subword < len(example.spans):
        return -1, -1
    start, end = example.spans[subword].tolist()
    return start, end


HEAD, FACTS, BASELINE = "head.safetensors", "head.json", "baseline.json"


NOTHING, SOMETHING = "nothing", "something"
"""What a pointer says of a text by whether it points."""


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """The content of ``head.json`` of a fine-tuned model.

    Attributes:
        kind: Name of the head's class.
        classes: Names of the classes, in their order.
        recipe: How it was trained.
        pair: Whether it reads two texts.
        about: Task, language, base model and seed, as far as they are known.
    """

    kind: str
    classes: tuple[str, ...]
    recipe: FinetuneRecipe
    pair: bool = False
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, folder: Path) -> HeadConfig:
        """Read the configuration from a folder.

        Raises:
            InputError: They are missing, damaged, or a baseline's.
        """
        if (folder / BASELINE).is_file():
            raise InputError(f"model {str(folder)!r} is a baseline, which only its own run can use")
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            return cls(
                str(facts["kind"]),
                tuple(map(str, facts["classes"])),
                FinetuneRecipe(**facts["recipe"]),
                bool(facts.get("pair")),
                dict(facts.get("about") or {}),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"model {str(folder)!r}: its head cannot be read ({error})") from None


def write_head(head: Head, facts: HeadConfig, folder: Path) -> None:
    """Write a head beside its body."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in head.state_dict().items()}
    if weights:
        save_file(weights, folder / HEAD)
    (folder / FACTS).write_text(json.dumps(asdict(facts), indent=2), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A model's prediction for a text.

    Attributes:
        label: The likeliest class; of a pointer ``something`` where it points at an error, else ``nothing``.
        chances: Probability of every class.
        place: Characters of what the answer rests on, or of the error; None where the model does not say.
        repair: Characters of a place that has what is right in the place of the error; pointers only.
        cut: Whether the model read a part of the text only.
    """

    label: str
    chances: Mapping[str, float]
    place: Span | None = None
    repair: Span | None = None
    cut: bool = False


class FineTuned:
    """A fine-tuned model; ``facts.kind`` names its head.

    A pooled classifier predicts a class. A head that reads subword by subword also gives the subword that its
    answer depends on. A pointer predicts the place of an error and its repair.

    Args:
        model: Body and head.
        loaded: The model that the body is of.
        facts: How it was trained.
    """

    def __init__(self, model: HeadedModel, loaded: LoadedModel, facts: HeadConfig) -> None:
        self.model, self.loaded, self.facts = model, loaded, facts

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in their order."""
        return self.facts.classes

    @staticmethod
    def about(folder: str | Path) -> Mapping[str, Any]:
        """Return task, language, base model, method and seed of the model in a folder, as far as known."""
        return HeadConfig.read(Path(folder)).about

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "auto") -> FineTuned:
        """Read a model from the folder that a run or `save_pretrained` wrote.

        Args:
            folder: The folder.
            device: ``"auto"``, ``"cpu"`` or ``"cuda"``.

        Raises:
            InputError: It is missing, damaged, or a baseline.
        """
        path = Path(folder)
        facts = HeadConfig.read(path)
        loaded_model = load_for_training(ModelSpec(name=str(path), device=device))
        try:
            model = _rebuild_model(path, loaded_model, facts)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError, RuntimeError) as error:
            raise InputError(f"model {str(path)!r}: its head cannot be read ({error})") from None
        return cls(model.eval(), loaded_model, facts)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model with its tokenizer into a folder, as a run does."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        with silence_libraries():
            save_body(self.model.body, self.loaded, path)
        write_head(self.model.head, self.facts, path)

    def tell(self, texts: Sequence[str], language: str = "") -> list[Prediction]:
        """Predict for texts, in their order.

        Args:
            texts: Functions, or other texts such as those of its training.
            language: Public name of their language, by default that of its training; pointers look for the
                variables of a function.

        Raises:
            UsageError: It reads pairs of texts.
        """
        if self.facts.pair:
            raise UsageError(f"the model reads pairs of texts (task {self.facts.about.get('task', '?')!r})")
        samples = [
            self._sample(text, language or str(self.facts.about.get("language", ""))) for text in texts
        ]
        reader: TextEncoder = build_text_encoder(
            self.loaded.tokenizer, self.loaded.special, self.loaded.capabilities.kind
        )
        encoded_examples = encode_samples(samples, reader, self.facts.recipe.length)
        answers = predict_examples(self.model, encoded_examples, reader.pad)
        is_pointer = isinstance(self.model.head, PointerHead)
        names = (NOTHING, SOMETHING) if is_pointer else self.classes
        predictions: list[Prediction] = []
        for row, (sample, example) in enumerate(zip(samples, encoded_examples, strict=True)):
            chances = dict(zip(names, answers.probability[row].tolist(), strict=True))
            label = names[int(answers.predicted[row])]
            pointed = [] if answers.pointed is None else answers.pointed[row].tolist()
            spans = [(start, end) if start >= 0 else None for start, end in pointed]
            place = repair = None
            if is_pointer and label != NOTHING:
                place, repair = (span and find_candidate(sample, span) for span in spans)
            elif spans and not is_pointer:
                place = find_word(sample.text, spans[0])
            is_cut = example.spans is not None and example.spans.max(initial=0) < len(sample.text.rstrip())
            predictions.append(Prediction(label, chances, place, repair, bool(is_cut)))
        return predictions

    def _sample(self, text: str, language: str) -> Sample:
        if not isinstance(self.model.head, PointerHead):
            return Sample("", text, 0)
        # The variables of a function are found by its language.
        from sonde.tasks.engine.bugs import find_pointers

        return Sample("", text, 0, candidates=find_pointers(text, language, None, None).candidates)


def _rebuild_model(folder: Path, loaded_model: LoadedModel, facts: HeadConfig) -> HeadedModel:
    """Rebuild body and head from a folder."""
    recipe = dataclasses.replace(facts.recipe, class_weights=EQUAL, weights=FLOAT32)
    if facts.kind == OwnHead.__name__:
        from transformers import AutoModelForSequenceClassification

        with silence_libraries():
            inner = AutoModelForSequenceClassification.from_pretrained(folder, dtype=loaded_model.model.dtype)
        body = LoadedBody(loaded_model, inner.to(loaded_model.device))
        return HeadedModel(body, OwnHead(len(facts.classes), None).to(loaded_model.device), frozen=True)
    pointer = facts.kind == PointerHead.__name__
    sample = Sample("", "", 0, second=0 if facts.pair else None, candidates=() if pointer else None)
    class_pooling, pointer_pooling = default_poolings(loaded_model)
    data = TaskData(facts.classes, [sample], [sample], [sample])
    head = build_head(data, recipe, loaded_model.capabilities.d_model, class_pooling, pointer_pooling)
    if type(head).__name__ != facts.kind:
        raise ValueError(f"its head is a {type(head).__name__}, not a {facts.kind}")
    head.load_state_dict(load_file(folder / HEAD))
    return HeadedModel(LoadedBody(loaded_model), head.to(loaded_model.device), frozen=True)
