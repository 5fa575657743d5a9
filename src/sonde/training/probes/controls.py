"""Control tasks: labels that can only be memorised (Hewitt and Liang 2019), and controls of tree probes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.training.probes.splits import Parts


def control_labels(
    types: Sequence[str], labels: Int[np.ndarray, " item"], seed: int
) -> Int[np.ndarray, " item"]:
    """Sample a label for each type from the distribution of the real labels, the same at each occurrence.

    Args:
        types: Surface of each item.
        labels: The real labels.
        seed: Seed of the labels.
    """
    shares = np.cumsum(np.bincount(labels)) / len(labels)
    drawn = {surface: unit_hash("control task", seed, surface) for surface in set(types)}
    places = np.array([drawn[surface] for surface in types])
    return np.minimum(np.searchsorted(shares, places, side="right"), len(shares) - 1)


def parts_within_types(types: Sequence[str], seed: int, folds: int = 1) -> tuple[Parts, ...]:
    """Split so that occurrences of a type are spread over all parts, and most test types were trained on.

    Where types are kept apart, nothing learned by heart can help, and a control task is at chance whatever
    the probe; here it shows how much of an accuracy memory could explain.

    Args:
        types: Surface of each item.
        seed: Seed of the split.
        folds: Number of parts that are tested in turn; 1 tests one part of a fifth.
    """
    rng = np.random.default_rng(derive_seed("parts within types", seed))
    groups: dict[str, list[int]] = {}
    for row, surface in enumerate(types):
        groups.setdefault(surface, []).append(row)
    place = np.empty(len(types))
    for surface in sorted(groups):
        members = np.array(groups[surface])
        # One offset a type keeps the shares right where most types occur once.
        place[rng.permutation(members)] = (rng.random() + np.arange(len(members)) * _GOLDEN) % 1.0
    number = folds if folds > 1 else _FIFTHS
    held = (place * number).astype(np.int64)
    return tuple(
        Parts(*(np.flatnonzero(np.isin(held, turn)) for turn in _turns(number, fold)))
        for fold in (range(number) if folds > 1 else (number - 1,))
    )


def _turns(number: int, fold: int) -> tuple[list[int], list[int], list[int]]:
    """Return the folds that train, the fold before the tested one, which validates, and the tested one."""
    before = (fold - 1) % number
    return [at for at in range(number) if at not in (fold, before)], [before], [fold]


_FIFTHS = 5


_GOLDEN = 0.6180339887498949
