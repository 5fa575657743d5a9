"""Probes as INSPECT's released code trains them, for all layers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.training.probes.adam import build_probe_result
from sonde.training.probes.linear import ProbeResult
from sonde.training.probes.splits import Splits, check_labels, check_states

L2 = (1e-5, 1e-4, 1e-3, 1e-2)
EPOCHS = 20
BATCH = 64
SEED = 42
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


def train_adam_layers(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, " item"],
    classes: Sequence[str],
    parts: Splits,
    *,
    epochs: int = EPOCHS,
    seed: int = SEED,
    name: str = "",
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Train INSPECT's protocol as its code runs it, for all layers together.

    One linear layer on unscaled states; Adam at 1e-3 with the penalty added to the gradient, of the bias too;
    the penalty with the best validation accuracy at batch 64 is kept, and the probe is trained again with it
    one item at a time. Early stopping is never reached: always 20 epochs and one look at validation.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a part.
    """
    check_states(name, states)
    check_labels(name, labels, classes, parts)
    states_by_part = {
        part: torch.from_numpy(np.ascontiguousarray(states[:, getattr(parts, part)], np.float32)).to(device)
        for part in ("train", "valid", "test")
    }
    gold = {part: torch.from_numpy(labels[getattr(parts, part)]).to(device) for part in ("train", "valid")}
    penalties = torch.tensor(L2, device=device)
    layers = len(states)
    grid = penalties.expand(layers, -1)
    weights = _adam(states_by_part["train"], gold["train"], len(classes), grid, BATCH, epochs, seed)
    right = (_linear(states_by_part["valid"], weights).argmax(3) == gold["valid"]).double().mean(2)
    best_penalties = penalties[right.argmax(1)][:, None]
    weights = _adam(states_by_part["train"], gold["train"], len(classes), best_penalties, 1, epochs, seed)
    valid = (_linear(states_by_part["valid"], weights).argmax(3) == gold["valid"]).double().mean(2)
    chance = _linear(states_by_part["test"], weights)[:, 0].log_softmax(2)
    return build_probe_result(best_penalties[:, 0].double().cpu().numpy(), valid[:, 0], chance)


def _linear(
    states: Float[Tensor, "layer item d_model"], weights: Float[Tensor, "layer l2 label column"]
) -> Float[Tensor, "layer l2 item label"]:
    return states[:, None] @ weights[..., :-1].mT + weights[..., -1][:, :, None]


def _adam(
    states: Float[Tensor, "layer item d_model"],
    gold: Int[Tensor, " item"],
    classes: int,
    l2: Float[Tensor, "layer l2"],
    batch: int,
    epochs: int,
    seed: int,
) -> Float[Tensor, "layer l2 label column"]:
    """Run Adam's steps manually: at batch 1 the gradient is an outer product, and a graph would cost more."""
    layers, _, features = states.shape
    generator = torch.Generator().manual_seed(seed)
    limit = features**-0.5
    first = (2 * torch.rand(classes, features + 1, generator=generator) - 1) * limit
    weights = first.to(states.device).expand(*l2.shape, -1, -1).clone()
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    inputs = torch.cat([states, states.new_ones(layers, states.shape[1], 1)], 2)
    onehot = torch.nn.functional.one_hot(gold, classes).to(states.dtype)
    decay = l2[..., None, None]
    rng = np.random.default_rng(seed)
    step = 0
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(inputs.shape[1])).to(states.device)
        for rows in order.split(batch):
            batch_inputs = inputs[:, None, rows]
            residual = (batch_inputs @ weights.mT).softmax(3) - onehot[rows]
            gradient = torch.baddbmm(
                (decay * weights).flatten(0, 1),
                residual.mT.flatten(0, 1),
                batch_inputs.expand(-1, l2.shape[1], -1, -1).flatten(0, 1),
                alpha=1 / len(rows),
            ).view_as(weights)
            step += 1
            mean.lerp_(gradient, 1 - _BETAS[0])
            square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
            size = (square / (1 - _BETAS[1] ** step)).sqrt_().add_(_EPSILON)
            weights.addcdiv_(mean, size, value=-1e-3 / (1 - _BETAS[0] ** step))
    return weights
