"""Linear softmax probes over all layers, penalties and label sets, chosen on validation, told on test.

What is decodable from frozen states by a linear map (Alain and Bengio 2016), with the penalty of each layer
and the layer itself chosen on the validation part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from sonde.training.probes.data import Standard, layers_at_once, standardise
from sonde.training.probes.parts import Parts, check_labels, check_states
from sonde.training.probes.softmax import fit_softmax, logits

L2 = (1.0, 0.1, 0.01, 0.001)
"""Penalties of the mean cross-entropy on standardised states, tried on validation."""


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """Probes of one label set on every layer, each with the penalty that was best on validation.

    Attributes:
        l2: The penalty chosen for each layer.
        valid_accuracy: Of every layer and penalty, on validation.
        valid_nats: Mean cross-entropy likewise.
        predicted: Class that each layer's probe gives to each test item.
        log_chance: Log-probability of every class, in nats.
        best: The layer with the best validation accuracy; of equals the one with the least cross-entropy.
    """

    l2: Float[np.ndarray, " layer"]
    valid_accuracy: Float[np.ndarray, "layer l2"]
    valid_nats: Float[np.ndarray, "layer l2"]
    predicted: Int[np.ndarray, "layer test"]
    log_chance: Float[np.ndarray, "layer test label"]
    best: int

    @property
    def chosen_valid_accuracy(self) -> Float[np.ndarray, " layer"]:
        """Validation accuracy of each layer with its chosen penalty."""
        return self.valid_accuracy.max(axis=1)


def probe_layers(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, "target item"],
    classes: Sequence[str],
    parts: Parts,
    *,
    l2: Sequence[float] = L2,
    name: str = "",
    device: torch.device | str = "cpu",
) -> list[Probed]:
    """Probe every layer for one or several label sets over the same items.

    Args:
        states: Frozen states; fp16 or float32.
        labels: Classes from 0, one row a label set (the task; control tasks beside it).
        classes: Names of the classes.
        parts: Which items train, choose and test.
        l2: Penalties to choose from.
        name: What is probed, for messages.
        device: Where to compute.

    Returns:
        One entry a label set.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a part.
    """
    check_states(name, states)
    check_labels(name, labels[0], classes, parts)
    return probe_unchecked(states, labels, len(classes), parts, l2=l2, device=device)


def probe_unchecked(
    states: Float[np.ndarray, "layer item d_model"],
    labels: Int[np.ndarray, "target item"],
    classes: int,
    parts: Parts,
    *,
    l2: Sequence[float] = L2,
    by_nats: bool = False,
    device: torch.device | str = "cpu",
) -> list[Probed]:
    """`probe_layers` for parts that may lack a class, as small training sets do.

    With ``by_nats`` penalties and layers are chosen by cross-entropy instead of accuracy, where it is the
    probabilities that count.
    """
    layers, items, width = states.shape
    step = layers_at_once(layers, items, width)
    chunks = [
        _probe_chunk(
            standardise(states[start : start + step], parts, device), labels, classes, parts, l2, by_nats
        )
        for start in range(0, layers, step)
    ]
    return [_join([chunk[target] for chunk in chunks], l2, by_nats) for target in range(len(labels))]


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Probes of some layers: validation figures for every penalty, test chances for the chosen ones."""

    valid_accuracy: Float[np.ndarray, "layer l2"]
    valid_nats: Float[np.ndarray, "layer l2"]
    log_chance: Float[np.ndarray, "layer test label"]


def _probe_chunk(
    states: Standard,
    labels: Int[np.ndarray, "target item"],
    classes: int,
    parts: Parts,
    l2: Sequence[float],
    by_nats: bool,
) -> list[_Chunk]:
    targets, penalties = len(labels), len(l2)
    on = states.train.device
    train = torch.from_numpy(np.repeat(labels[:, parts.train], penalties, axis=0)).to(on)
    fit = fit_softmax(states.train, train, torch.tensor(list(l2) * targets, device=on), classes)
    layers = len(states.train)
    weight = fit.weight.view(layers, targets, penalties, classes, -1)
    bias = fit.bias.view(layers, targets, penalties, classes)
    chunks: list[_Chunk] = []
    for target in range(targets):
        gold = torch.from_numpy(labels[target, parts.valid]).to(on)
        scores = logits(states.valid, weight[:, target], bias[:, target])
        accuracy = (scores.argmax(2) == gold).double().mean(2)
        nats = (
            -scores.log_softmax(2).gather(2, gold.expand(layers, penalties, 1, -1))[:, :, 0].double().mean(2)
        )
        chosen = nats.argmin(1) if by_nats else _best(accuracy, nats)
        every = torch.arange(layers, device=on)
        picked = weight[every, target, chosen][:, None], bias[every, target, chosen][:, None]
        chance = logits(states.test, *picked)[:, 0].log_softmax(1).mT
        chunks.append(_Chunk(accuracy.cpu().numpy(), nats.cpu().numpy(), chance.cpu().numpy()))
    return chunks


def _best(
    accuracy: Float[torch.Tensor, "row choice"], nats: Float[torch.Tensor, "row choice"]
) -> Int[torch.Tensor, " row"]:
    """The choice of each row with the best accuracy; of equals the one with the least cross-entropy."""
    equal = accuracy == accuracy.amax(1, keepdim=True)
    return torch.where(equal, nats, torch.inf).argmin(1)


def _join(chunks: Sequence[_Chunk], l2: Sequence[float], by_nats: bool) -> Probed:
    accuracy = np.concatenate([chunk.valid_accuracy for chunk in chunks])
    nats = np.concatenate([chunk.valid_nats for chunk in chunks])
    chance = np.concatenate([chunk.log_chance for chunk in chunks])
    rated = -nats if by_nats else accuracy
    chosen = _best(torch.from_numpy(rated), torch.from_numpy(nats)).numpy()
    every = np.arange(len(accuracy))
    top, least = rated[every, chosen], nats[every, chosen]
    return Probed(
        l2=np.asarray(l2, dtype=np.float64)[chosen],
        valid_accuracy=accuracy,
        valid_nats=nats,
        predicted=chance.argmax(2),
        log_chance=chance,
        best=int(_best(torch.from_numpy(top[None]), torch.from_numpy(least[None]))[0]),
    )


__all__ = ["L2", "Parts", "Probed", "probe_layers", "probe_unchecked"]
