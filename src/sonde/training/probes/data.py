"""States as input of probes: split, standardised, in chunks of layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.training.probes.splits import Splits


@dataclass(frozen=True, slots=True, eq=False)
class StandardisedStates:
    """Standardised states of the three parts, by mean and deviation of the training part.

    A feature that does not vary there is 0 everywhere.
    """

    train: Float[Tensor, "layer train d_model"]
    valid: Float[Tensor, "layer valid d_model"]
    test: Float[Tensor, "layer test d_model"]


def standardise(
    states: Float[np.ndarray, "layer item d_model"], splits: Splits, device: torch.device | str = "cpu"
) -> StandardisedStates:
    """Split states and standardise every feature of every layer, in float32."""
    train = _to_tensor(states, splits.train, device)
    mean = train.mean(1, keepdim=True)
    train -= mean
    deviation = train.square().mean(1, keepdim=True).sqrt()
    # What varies by no more than rounding of its mean does not vary.
    constant = deviation <= 1e-6 * mean.abs() + 1e-12
    factor = torch.where(constant, 0.0, 1.0 / deviation)
    train *= factor
    held_out_states = [
        (_to_tensor(states, rows, device) - mean) * factor for rows in (splits.valid, splits.test)
    ]
    return StandardisedStates(train, *held_out_states)


def _to_tensor(
    states: Float[np.ndarray, "layer item d_model"], rows: Int[np.ndarray, " row"], device: torch.device | str
) -> Float[Tensor, "layer row d_model"]:
    return torch.from_numpy(np.ascontiguousarray(states[:, rows], dtype=np.float32)).to(device)


def layers_per_chunk(layers: int, items: int, width: int, budget: int = 1 << 29) -> int:
    """Return how many layers to process together, so that their states fit a budget of bytes."""
    return max(1, min(layers, budget // max(1, 4 * items * width)))
