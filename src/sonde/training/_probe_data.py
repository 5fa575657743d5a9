"""What a probe is trained on: states, labels and three disjoint parts, checked before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.base.errors import InputError

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Rows of the three disjoint parts: fit on the first, choose on the second, report on the third."""

    train: Int[np.ndarray, " train"]
    valid: Int[np.ndarray, " valid"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def of(cls, split: Sequence[str]) -> Parts:
        """The parts of rows by the name of their split."""
        names = np.asarray(split, dtype=str)
        return cls(*(np.flatnonzero(names == part) for part in PARTS))


def check_labels(name: str, labels: Int[np.ndarray, " item"], classes: Sequence[str], parts: Parts) -> None:
    """Refuse labels on which no probe can be chosen and tested.

    Args:
        name: What is probed, for the message.
        labels: Classes from 0.
        classes: Their names.
        parts: The parts.

    Raises:
        InputError: There is one class only, or a part lacks one.
    """
    if len(classes) < 2:
        held = f"one class only ({classes[0]!r})" if classes else "no labelled example"
        raise InputError(f"task {name!r}: {held}; a probe needs two, take a larger corpus or limit")
    for part in PARTS:
        present = set(labels[getattr(parts, part)].tolist())
        missing = [label for index, label in enumerate(classes) if index not in present]
        if missing:
            raise InputError(
                f"task {name!r}: class {missing[0]!r} has no example in split {part!r}; "
                "take a larger corpus or limit"
            )


def check_states(name: str, states: Float[np.ndarray, "layer item d_model"]) -> None:
    """Refuse states that are not finite.

    Raises:
        InputError: Naming the first such layer.
    """
    for layer, held in enumerate(states):
        broken = ~np.isfinite(held).all(axis=1)
        if broken.any():
            raise InputError(
                f"task {name!r}: {int(broken.sum())} of {len(held)} states of layer {layer} are NaN or "
                "infinite; run the model in float32 or bfloat16"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Standard:
    """Standardised states of the three parts; mean and deviation are those of the training part.

    A feature that does not vary there is 0 everywhere.
    """

    train: Float[Tensor, "layer train d_model"]
    valid: Float[Tensor, "layer valid d_model"]
    test: Float[Tensor, "layer test d_model"]


def standardise(
    states: Float[np.ndarray, "layer item d_model"], parts: Parts, device: torch.device | str = "cpu"
) -> Standard:
    """Cut states into parts and standardise every feature of every layer, in float32."""
    train = _rows(states, parts.train, device)
    mean = train.mean(1, keepdim=True)
    train -= mean
    deviation = train.square().mean(1, keepdim=True).sqrt()
    # What varies by no more than rounding of its mean does not vary.
    constant = deviation <= 1e-6 * mean.abs() + 1e-12
    factor = torch.where(constant, 0.0, 1.0 / deviation)
    train *= factor
    others = [(_rows(states, rows, device) - mean) * factor for rows in (parts.valid, parts.test)]
    return Standard(train, *others)


def _rows(
    states: Float[np.ndarray, "layer item d_model"], rows: Int[np.ndarray, " row"], device: torch.device | str
) -> Float[Tensor, "layer row d_model"]:
    return torch.from_numpy(np.ascontiguousarray(states[:, rows], dtype=np.float32)).to(device)


def layers_at_once(layers: int, items: int, width: int, budget: int = 1 << 29) -> int:
    """How many layers are worked on together, so that their states stay within a budget of bytes."""
    return max(1, min(layers, budget // max(1, 4 * items * width)))
