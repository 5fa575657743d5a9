"""What probes of trees share: parts, scaling, batches of whole texts, and Adam with early stopping.

Their losses are not convex, so they are trained by steps, the probes of all layers together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.base.errors import InputError

EPOCHS = 40
_BATCH = 16
_RATE = 1e-3
_PATIENCE = 5

B = TypeVar("B")
T = TypeVar("T")

Weights = tuple[Tensor, ...]
"""Tensors whose first axes are those of the losses, one probe an entry."""


def split_parts(texts: Sequence[T], split: Sequence[str]) -> Mapping[str, list[T]]:
    """The texts of ``train``, ``valid`` and ``test``.

    Raises:
        InputError: A split has no text.
    """
    parts = {
        part: [text for text, own in zip(texts, split, strict=True) if own == part]
        for part in ("train", "valid", "test")
    }
    for part, held in parts.items():
        if not held:
            raise InputError(f"structural probe: no function in split {part!r}; raise the limit or its share")
    return parts


def scaled(
    states: Float[np.ndarray, "layer token d_model"],
) -> tuple[Float[np.ndarray, "layer 1 d_model"], Float[np.ndarray, "layer 1 d_model"]]:
    """Mean and deviation of each direction; 1 where a direction does not vary."""
    deviation = states.std(axis=1, keepdims=True)
    return states.mean(axis=1, keepdims=True), np.where(deviation > 0, deviation, 1.0)


def batches_of(
    sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[tuple[Int[np.ndarray, " some"], int]]:
    """All texts in a new order, some at a time, with the size of the longest of them."""
    for rows in np.array_split(rng.permutation(len(sizes)), -(-len(sizes) // _BATCH)):
        yield rows, max(sizes[row] for row in rows)


def train_steps(
    start: Weights,
    loss: Callable[[Weights, B], Float[Tensor, "*probe"]],
    batches: Callable[[], Iterator[B]],
    valid: B,
    epochs: int,
    *,
    rate: float = _RATE,
    patience: int = _PATIENCE,
) -> tuple[Weights, Float[Tensor, "*probe"]]:
    """Adam with early stopping; each probe keeps the weights of its best epoch.

    Args:
        start: Where to start.
        loss: The loss of each probe on a batch.
        batches: The training texts, once.
        valid: The validation texts.
        epochs: At most so many.
        rate: Length of a step.
        patience: Epochs without a better validation loss in any probe, after which it ends.

    Returns:
        The weights, and the loss of each probe on the validation texts.
    """
    weights = tuple(one.clone().requires_grad_() for one in start)
    optimiser = torch.optim.Adam(weights, lr=rate)
    kept = tuple(one.clone() for one in start)
    with torch.no_grad():
        least = torch.full_like(loss(weights, valid), torch.inf)
    waited = 0
    for _ in range(epochs):
        for batch in batches():
            optimiser.zero_grad()
            loss(weights, batch).sum().backward()
            optimiser.step()
        with torch.no_grad():
            found = loss(weights, valid)
        better = found < least
        least = torch.where(better, found, least)
        for one, weight in zip(kept, weights, strict=True):
            one[better] = weight.detach()[better]
        waited = 0 if bool(better.any()) else waited + 1
        if waited == patience:
            break
    return kept, least
