"""Control tasks: labels that can only be learned by heart (Hewitt and Liang 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.training.probes.parts import Parts

_TRAIN, _VALID = 0.6, 0.8


def control_labels(
    types: Sequence[str], labels: Int[np.ndarray, " item"], seed: int
) -> Int[np.ndarray, " item"]:
    """A label a type, drawn from the distribution of the real labels and the same at each occurrence.

    Args:
        types: Surface of each item.
        labels: The real labels.
        seed: Draws other labels.
    """
    shares = np.cumsum(np.bincount(labels)) / len(labels)
    drawn = {surface: unit_hash("control task", seed, surface) for surface in set(types)}
    places = np.array([drawn[surface] for surface in types])
    return np.minimum(np.searchsorted(shares, places, side="right"), len(shares) - 1)


def parts_within_types(types: Sequence[str], seed: int, rows: Int[np.ndarray, " row"] | None = None) -> Parts:
    """Parts in which the occurrences of a type are dealt out, so that most test types were trained on.

    Where types are kept apart, nothing learned by heart can help, and a control task is at chance whatever
    the probe; here it shows how much of an accuracy memory could explain.

    Args:
        types: Surface of each item.
        seed: Deals otherwise.
        rows: Of which items; None takes all.
    """
    rng = np.random.default_rng(derive_seed("parts within types", seed))
    groups: dict[str, list[int]] = {}
    for row in range(len(types)) if rows is None else rows.tolist():
        groups.setdefault(types[row], []).append(row)
    place = np.full(len(types), -1.0)
    for surface in sorted(groups):
        members = np.array(groups[surface])
        # One offset a type keeps the shares right where most types occur once.
        place[rng.permutation(members)] = (rng.random() + np.arange(len(members)) * _GOLDEN) % 1.0
    held = place >= 0
    return Parts(
        np.flatnonzero(held & (place < _TRAIN)),
        np.flatnonzero(held & (place >= _TRAIN) & (place < _VALID)),
        np.flatnonzero(held & (place >= _VALID)),
    )


_GOLDEN = 0.6180339887498949
