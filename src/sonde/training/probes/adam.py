"""Probes with a hidden layer, trained by gradient steps, for all layers at once.

Every problem (a layer with a seed) has its own weights; one batch of items serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.training.probes.linear import standardise
from sonde.training.probes.splits import Splits, check_labels, check_states


@dataclass(frozen=True, slots=True, eq=False)
class TrainedProbes:
    """Probes that were trained by gradient steps.

    Attributes:
        predicted: Predicted class of each test item, by layer.
        chosen_valid_accuracy: Validation accuracy of each layer.
        log_chance: Log-probabilities on the test items, in nats.
        best: Layer with the best validation accuracy, the lower of equals.
        l2: Selected weight decay of each layer; 0 without one.
    """

    predicted: Int[np.ndarray, "layer test"]
    chosen_valid_accuracy: Float[np.ndarray, " layer"]
    log_chance: Float[np.ndarray, "layer test label"]
    best: int
    l2: Float[np.ndarray, " layer"]


def train_mlp_layers(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, " item"],
    classes: Sequence[str],
    splits: Splits,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    width: int = 64,
    batch: int = 64,
    rate: float = 1e-3,
    patience: int = 5,
    epochs: int = 100,
    name: str = "",
    device: torch.device | str = "cpu",
) -> list[TrainedProbes]:
    """Train probes with one hidden layer by Adam, with early stopping on validation.

    Each probe keeps the weights of its epoch with the least validation cross-entropy; training ends when none
    has improved for ``patience`` epochs.

    Returns:
        One entry a seed.

    Raises:
        InputError: See `sonde.training.probes.linear.probe_layers`.
    """
    check_states(name, states)
    check_labels(name, labels, classes, splits)
    inputs = standardise(states, splits, device)
    layers, _, features = inputs.train.shape
    shapes = [(features, width), (width,), (width, len(classes)), (len(classes),)]
    initial_weights = [_initialise_weights(shapes, seed) for seed in seeds]
    weights = [
        torch.stack([seed_weights[index] for seed_weights in initial_weights])
        .expand(layers, *([-1] * (len(shapes[index]) + 1)))
        .clone()
        for index in range(len(shapes))
    ]
    weights = [weight.to(device).requires_grad_() for weight in weights]
    optimiser = torch.optim.Adam(weights, lr=rate)
    gold = {
        split: torch.from_numpy(labels[getattr(splits, split)]).to(device) for split in ("train", "valid")
    }
    lowest_nats = torch.full((layers, len(seeds)), torch.inf, device=device)
    best_weights = [weight.detach().clone() for weight in weights]
    rng = np.random.default_rng(list(seeds))
    stale_epochs = 0
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(splits.train))).to(device)
        for rows in order.split(batch):
            optimiser.zero_grad()
            _cross_entropy(_forward(inputs.train[:, rows], weights), gold["train"][rows]).sum().backward()
            optimiser.step()
        with torch.no_grad():
            nats = _cross_entropy(_forward(inputs.valid, weights), gold["valid"])
        is_better = nats < lowest_nats
        lowest_nats = torch.where(is_better, nats, lowest_nats)
        for index, weight in enumerate(weights):
            best_weights[index][is_better] = weight.detach()[is_better]
        stale_epochs = 0 if bool(is_better.any()) else stale_epochs + 1
        if stale_epochs == patience:
            break
    valid = (_forward(inputs.valid, best_weights).argmax(3) == gold["valid"]).double().mean(2)
    chance = _forward(inputs.test, best_weights).log_softmax(3)
    return [
        build_trained_probes(valid[:, seed].cpu().numpy(), chance[:, seed].cpu().numpy(), np.zeros(layers))
        for seed in range(len(seeds))
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


def build_trained_probes(
    valid: Float[np.ndarray, " layer"],
    chance: Float[np.ndarray, "layer test label"],
    l2: Float[np.ndarray, " layer"],
) -> TrainedProbes:
    """Build the result from validation accuracies and log-probabilities on the test items."""
    return TrainedProbes(chance.argmax(2), valid, chance, int(valid.argmax()), l2)
