"""What a trained model answers to examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sonde.training.finetune.batches import Batch, MicroBatches, batch_by_length, collate
from sonde.training.finetune.data import EncodedExample
from sonde.training.finetune.model import LEAST, HeadedModel, PointerHead, TokenHead

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
        """The task's own metric: how much is right altogether."""
        return float(self.correct.mean())

    @property
    def loss(self) -> float:
        """Mean negative logarithm of the right answers' probability, nats; it tells equal shares apart."""
        held = self.chance[~np.isnan(self.chance)]
        return float(-np.log(held.clip(min=LEAST)).mean()) if len(held) else float("inf")


@torch.no_grad()
def predict_examples(
    model: HeadedModel, encoded: Sequence[EncodedExample], pad: int, portions: MicroBatches | None = None
) -> ExamplePredictions:
    """Ask a model; it is left in evaluation mode.

    Args:
        model: The model.
        encoded: The examples.
        pad: Subword of padding.
        portions: How much is read at once; by default a batch, halved where it does not fit into memory.
    """
    model.eval()
    device = next(model.parameters()).device
    portions = portions or MicroBatches(device)
    size = len(encoded)
    pointer = isinstance(model.head, PointerHead)
    each = isinstance(model.head, TokenHead)
    width = 2 if isinstance(model.head, PointerHead) else model.head.classes
    probability = np.zeros((size, width))
    predicted = np.zeros(size, np.int64)
    located, repaired = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    pointed = np.full((size, 2, 2), -1)
    chance = np.full(size, np.nan)

    def read(some: Sequence[int]) -> tuple[Batch, Tensor, Tensor | None]:
        batch = collate(some, encoded, pad, device)
        return batch, *model.answers(batch)

    fitted = (portions.done(rows, encoded, read) for rows in batch_by_length(encoded, _AT_ONCE))
    for rows, (batch, found, places) in chain.from_iterable(fitted):
        shares = (found[:, 0].exp() if pointer else found.softmax(-1)).double().cpu().numpy()
        right = batch.location if pointer else batch.target
        chance[rows] = _gold_share(shares, right.cpu().numpy())
        if not pointer:
            probability[rows], predicted[rows] = shares, shares.argmax(1)
            for row, place in zip(rows, [] if places is None else places.tolist(), strict=places is not None):
                pointed[row, 0] = _subword_span(encoded[row], place)
            continue
        probability[rows] = np.stack([shares[:, 0], 1 - shares[:, 0]], 1)
        said = found.argmax(-1).cpu().numpy()
        predicted[rows] = said[:, 0] > 0
        for row, (place, repair) in zip(rows, said.tolist(), strict=True):
            one = encoded[row]
            located[row] = place == one.location
            repaired[row] = repair in one.repairs or one.location == 0
            for which, at in enumerate((place, repair)):
                pointed[row, which] = _subword_span(one, at - 1)
    truncated = np.array([one.truncated for one in encoded])
    reached = tuple(one.reached for one in encoded)
    hashes = tuple(blake2b(one.ids.tobytes(), digest_size=8).hexdigest() for one in encoded)
    shown = (truncated, reached, hashes, chance)
    if pointer:
        return ExamplePredictions(
            predicted, probability, located & repaired, *shown, located, repaired, pointed
        )
    targets = np.array([one.target for one in encoded])
    right = predicted == targets
    return ExamplePredictions(predicted, probability, right, *shown, pointed=pointed[:, :1] if each else None)


def _subword_span(one: EncodedExample, subword: int) -> tuple[int, int]:
    """Characters of a subword; as published, a pointer may also point into the padding."""
    if one.spans is None or not 0 <= subword < len(one.spans):
        return -1, -1
    start, end = one.spans[subword].tolist()
    return start, end


def _gold_share(
    shares: Float[np.ndarray, "example choice"], right: Int[np.ndarray, " example"]
) -> Float[np.ndarray, " example"]:
    """Share of what is right; not a number where that is -1."""
    return np.where(right >= 0, shares[np.arange(len(right)), right], np.nan)
