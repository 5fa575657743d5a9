"""Control tasks: labels that can only be memorised (Hewitt and Liang 2019), and splits for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.training.probes.splits import Splits


def sample_control_labels(
    types: Sequence[str], labels: Int[np.ndarray, " item"], seed: int
) -> Int[np.ndarray, " item"]:
    """Sample a label for each type from the distribution of the real labels, the same at each occurrence.

    Args:
        types: Surface of each item.
        labels: The real labels.
        seed: Seed of the labels.
    """
    shares = np.cumsum(np.bincount(labels)) / len(labels)
    uniforms = {surface: unit_hash("control task", seed, surface) for surface in set(types)}
    positions = np.array([uniforms[surface] for surface in types])
    return np.minimum(np.searchsorted(shares, positions, side="right"), len(shares) - 1)


def split_within_types(types: Sequence[str], seed: int, folds: int = 1) -> tuple[Splits, ...]:
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
    positions = np.empty(len(types))
    for surface in sorted(groups):
        members = np.array(groups[surface])
        # One offset a type keeps the shares right where most types occur once.
        positions[rng.permutation(members)] = (rng.random() + np.arange(len(members)) * _GOLDEN_RATIO) % 1.0
    n_folds = folds if folds > 1 else _DEFAULT_FOLDS
    fold_numbers = (positions * n_folds).astype(np.int64)
    return tuple(
        Splits.from_folds(fold_numbers, (fold - 1) % n_folds, fold)
        for fold in (range(n_folds) if folds > 1 else (n_folds - 1,))
    )


_DEFAULT_FOLDS = 5


_GOLDEN_RATIO = 0.6180339887498949
