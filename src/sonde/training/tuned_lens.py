"""Tuned lens: a map a layer, with which the head reads it as it reads the last one (Belrose et al. 2023).

A layer may hold an answer in other directions than those that the head looks along. An affine map, trained so
that what the head makes of the mapped state is near the model's own prediction (Kullback-Leibler divergence),
takes that away; the right subword is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.models import LoadedModel
from sonde.models.engine.lm_head import body_and_head, last_steps

BATCH = 128
"""States of a step."""

STEPS = 150
"""Steps of a layer; the step size falls to nothing along a line."""

RATE = 3e-3
"""Step size of the first step, of Adam."""

_ROWS = 512
"""States that are projected on the vocabulary at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Translator:
    """The map of one layer: ``x + x @ weight + bias``.

    Attributes:
        weight: What is added along the state.
        bias: What is added whatever the state.
    """

    weight: Float[Tensor, "d_model d_model"]
    bias: Float[Tensor, " d_model"]

    def __call__(self, states: Float[Tensor, "row d_model"]) -> Float[Tensor, "row d_model"]:
        """Map states."""
        return states + states @ self.weight + self.bias


class LayerHead:
    """Final norm and head of a model, applied to the states of any layer but the last.

    Args:
        loaded_model: The model.
    """

    def __init__(self, loaded_model: LoadedModel) -> None:
        self.device = loaded_model.device
        self._steps = last_steps(loaded_model)
        self._head = body_and_head(loaded_model)[1].to_float32()
        self._dtype = loaded_model.model.dtype

    def __call__(self, states: Float[Tensor, "row d_model"]) -> Float[Tensor, "row vocab"]:
        """Compute log-probabilities from the states of a layer."""
        return self.last(self._steps(states.to(self._dtype)))

    def last(self, states: Float[Tensor, "row d_model"]) -> Float[Tensor, "row vocab"]:
        """Compute log-probabilities from the last states, as the head takes them."""
        return self._head(states).float().log_softmax(-1)


def train_translators(
    head: LayerHead, states: Float[np.ndarray, "layer row d_model"], *, steps: int = STEPS, rate: float = RATE
) -> list[Translator]:
    """Train the map of every layer but the last; rows are taken in their order, over and over.

    Nothing is random: maps begin at the identity, so that one training is all that there is.

    Args:
        head: Reads states.
        states: States of the training split, the last layer as the head is given it.
        steps: Steps of a layer.
        rate: Step size of the first one.
    """
    target = torch.from_numpy(states[-1]).to(head.device)
    return [
        _train_translator(head, torch.from_numpy(layer).to(head.device), target, steps, rate)
        for layer in states[:-1]
    ]


@torch.enable_grad()
def _train_translator(
    head: LayerHead,
    states: Float[Tensor, "row d_model"],
    target: Float[Tensor, "row d_model"],
    steps: int,
    rate: float,
) -> Translator:
    width = states.shape[1]
    weight = torch.zeros(width, width, device=states.device, requires_grad=True)
    bias = torch.zeros(width, device=states.device, requires_grad=True)
    optimiser = torch.optim.Adam([weight, bias], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    translator = Translator(weight, bias)
    for step in range(steps):
        rows = torch.arange(step * BATCH, (step + 1) * BATCH, device=states.device) % len(states)
        with torch.no_grad():
            target_logs = head.last(target[rows])
        logs = head(translator(states[rows]))
        loss = torch.nn.functional.kl_div(logs, target_logs, reduction="batchmean", log_target=True)
        weight.grad, bias.grad = torch.autograd.grad(loss, [weight, bias])
        optimiser.step()
        schedule.step()
    return Translator(weight.detach(), bias.detach())


@torch.no_grad()
def score_with_translators(
    head: LayerHead,
    translators: Sequence[Translator],
    states: Float[np.ndarray, "layer row d_model"],
    gold: Int[np.ndarray, " row"],
) -> tuple[Float[np.ndarray, "layer row"], Int[np.ndarray, "layer row"]]:
    """Score the right ids by layer: negative log-probability and rank, the last as the model."""
    right = torch.from_numpy(gold).to(head.device)
    nats = np.empty((len(states), len(gold)), dtype=np.float32)
    rank = np.empty((len(states), len(gold)), dtype=np.int64)
    for layer, layer_states in enumerate(states):
        for begin in range(0, len(gold), _ROWS):
            rows = slice(begin, begin + _ROWS)
            row_states = torch.from_numpy(layer_states[rows]).to(head.device)
            logs = (
                head.last(row_states) if layer == len(translators) else head(translators[layer](row_states))
            )
            gold_logs = logs.gather(1, right[rows, None])
            nats[layer, rows] = -gold_logs[:, 0].cpu().numpy()
            rank[layer, rows] = (logs >= gold_logs).sum(1).cpu().numpy()
    return nats, rank
