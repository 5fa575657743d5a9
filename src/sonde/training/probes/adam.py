"""Probes that are trained by gradient steps, for all layers at once: Adam with early stopping.

Every problem (a layer with a seed) has its own weights; one batch of items serves all. `train_probes` trains
any such probes, `train_mlp_layers` those with one hidden layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.training.probes.linear import ProbeResult, standardise
from sonde.training.probes.splits import Splits, check_labels, check_states

RATE, PATIENCE = 1e-3, 5

B = TypeVar("B")

Weights = tuple[Tensor, ...]
"""Tensors whose first axes are those of the losses, one probe an entry."""


def train_probes(
    start: Weights,
    loss: Callable[[Weights, B], Float[Tensor, "*probe"]],
    batches: Callable[[], Iterator[B]],
    valid: B,
    epochs: int,
    *,
    rate: float = RATE,
    patience: int = PATIENCE,
) -> tuple[Weights, Float[Tensor, "*probe"]]:
    """Train probes by Adam with early stopping; each keeps the weights of its best epoch.

    Args:
        start: Starting weights.
        loss: Returns the loss of each probe on a batch.
        batches: Iterates the training texts once.
        valid: The validation texts.
        epochs: Maximum number of epochs.
        rate: Learning rate.
        patience: Number of epochs without improvement of any probe, after which training ends.

    Returns:
        The weights, and the loss of each probe on the validation texts.
    """
    weights = tuple(tensor.clone().requires_grad_() for tensor in start)
    optimiser = torch.optim.Adam(weights, lr=rate)
    best_weights = tuple(tensor.clone() for tensor in start)
    with torch.no_grad():
        lowest_loss = torch.full_like(loss(weights, valid), torch.inf)
    stale_epochs = 0
    for _ in range(epochs):
        for batch in batches():
            optimiser.zero_grad()
            loss(weights, batch).sum().backward()
            optimiser.step()
        with torch.no_grad():
            valid_loss = loss(weights, valid)
        is_better = valid_loss < lowest_loss
        lowest_loss = torch.where(is_better, valid_loss, lowest_loss)
        for best_weight, weight in zip(best_weights, weights, strict=True):
            best_weight[is_better] = weight.detach()[is_better]
        stale_epochs = 0 if bool(is_better.any()) else stale_epochs + 1
        if stale_epochs == patience:
            break
    return best_weights, lowest_loss


def train_mlp_layers(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, " item"],
    classes: Sequence[str],
    splits: Splits,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    width: int = 64,
    batch: int = 64,
    epochs: int = 100,
    name: str = "",
    device: torch.device | str = "cpu",
) -> list[ProbeResult]:
    """Train probes with one hidden layer by Adam, with early stopping on validation.

    Each probe keeps the weights of its epoch with the least validation cross-entropy.

    Returns:
        One entry a seed.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a part.
    """
    check_states(name, states)
    check_labels(name, labels, classes, splits)
    inputs = standardise(states, splits, device)
    layers, _, features = inputs.train.shape
    shapes = [(features, width), (width,), (width, len(classes)), (len(classes),)]
    initial_weights = [_initialise_weights(shapes, seed) for seed in seeds]
    start = tuple(
        torch.stack(tensors).expand(layers, *([-1] * (tensors[0].ndim + 1))).to(device)
        for tensors in zip(*initial_weights, strict=True)
    )
    gold = {
        split: torch.from_numpy(labels[getattr(splits, split)]).to(device) for split in ("train", "valid")
    }
    rng = np.random.default_rng(list(seeds))

    def iterate_epoch() -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.from_numpy(rng.permutation(len(splits.train))).to(device)
        for rows in order.split(batch):
            yield inputs.train[:, rows], gold["train"][rows]

    def compute_loss(weights: Weights, examples: tuple[Tensor, Tensor]) -> Float[Tensor, "layer seed"]:
        return _cross_entropy(_forward(examples[0], weights), examples[1])

    validation = inputs.valid, gold["valid"]
    best_weights, _ = train_probes(start, compute_loss, iterate_epoch, validation, epochs)
    accuracy = (_forward(inputs.valid, best_weights).argmax(3) == gold["valid"]).double().mean(2)
    chance = _forward(inputs.test, best_weights).log_softmax(3)
    return [
        build_probe_result(np.zeros(layers), accuracy[:, seed], chance[:, seed]) for seed in range(len(seeds))
    ]


def _initialise_weights(shapes: Sequence[tuple[int, ...]], seed: int) -> list[Tensor]:
    """Initialise weights uniformly within one over the root of the inputs, as PyTorch's linear layer."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [shapes[0][0], shapes[0][0], shapes[2][0], shapes[2][0]]
    return [
        (2 * torch.rand(shape, generator=generator) - 1) / size**0.5
        for shape, size in zip(shapes, inputs, strict=True)
    ]


def _forward(
    states: Float[Tensor, "layer item d_model"], weights: Sequence[Tensor]
) -> Float[Tensor, "layer seed item label"]:
    first, offset, second, bias = weights
    hidden_states = torch.relu(states[:, None] @ first + offset[:, :, None])
    return hidden_states @ second + bias[:, :, None]


def _cross_entropy(
    scores: Float[Tensor, "layer seed item label"], gold: Int[Tensor, " item"]
) -> Float[Tensor, "layer seed"]:
    index = gold.expand(*scores.shape[:2], -1)[..., None]
    return -scores.log_softmax(3).gather(3, index)[..., 0].mean(2)


def build_probe_result(
    l2: Float[np.ndarray, " layer"],
    accuracy: Float[Tensor, " layer"],
    log_chance: Float[Tensor, "layer test label"],
) -> ProbeResult:
    """Build the result of one probe a layer from its validation accuracy and its test probabilities."""
    valid = accuracy.cpu().numpy()
    return ProbeResult(l2, valid[:, None], log_chance.cpu().numpy(), int(valid.argmax()))
