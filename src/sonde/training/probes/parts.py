"""Examples in three disjoint parts, and what is refused before anything is fitted; no torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

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
