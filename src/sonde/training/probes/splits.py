"""Train, validation and test splits, once or fold by fold, and checks before a fit; torch is not imported."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sonde.base.errors import InputError, explain_nan

SPLIT_NAMES = ("train", "valid", "test")


MIN_FOLDS = 3
"""One fold trains, one chooses, one is tested."""


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Rows of the three disjoint splits: fit on the first, select on the second, report on the third."""

    train: Int[np.ndarray, " train"]
    valid: Int[np.ndarray, " valid"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def from_names(cls, split: Sequence[str]) -> Splits:
        """Build splits from the name of each row's split."""
        names = np.asarray(split, dtype=str)
        return cls(*(np.flatnonzero(names == part) for part in SPLIT_NAMES))

    @classmethod
    def from_folds(cls, folds: Int[np.ndarray, " item"], valid: int, test: int) -> Splits:
        """Build splits from the fold of each row: one fold selects, one is tested, the others train."""
        is_valid, is_test = folds == valid, folds == test
        return cls(*(np.flatnonzero(part) for part in (~(is_valid | is_test), is_valid, is_test)))


def make_grouped_folds(
    labels: Int[np.ndarray, " item"], groups: Int[np.ndarray, " item"], folds: int, seed: int
) -> tuple[Splits, ...]:
    """Build folds of whole groups, so that every item is tested once by probes that saw none of its group.

    Whole groups are dealt to folds, each class alike in all as far as groups allow. In turn each fold is
    tested and the next one chooses penalties and layers; all others train.

    Args:
        labels: Classes, to be balanced over folds.
        groups: Group of each item; groups are never split.
        folds: Number of folds, at least three; fewer if there are fewer groups.
        seed: Seed of the split.

    Raises:
        InputError: There are fewer than three groups.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    count = min(folds, len(np.unique(groups)))
    if count < MIN_FOLDS:
        raise InputError(
            f"{count} cluster{'s' if count != 1 else ''}, but one to train on, one to choose on and one to "
            "test on are needed: take a corpus of more repositories"
        )
    dealer = StratifiedGroupKFold(n_splits=count, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # A class of fewer items than folds is in some folds alone, which are all that it can be in.
        warnings.simplefilter("ignore", UserWarning)
        fold_numbers = np.empty(len(labels), np.int64)
        for fold, (_, test) in enumerate(dealer.split(labels, labels, groups)):
            fold_numbers[test] = fold
    return tuple(Splits.from_folds(fold_numbers, (fold + 1) % count, fold) for fold in range(count))


def check_folds(
    name: str, labels: Int[np.ndarray, " item"], classes: Sequence[str], folds: Sequence[Splits]
) -> None:
    """Refuse labels of which a fold cannot learn a class.

    Args:
        name: Name of the task, for the message.
        labels: Classes from 0.
        classes: Their names.
        folds: Splits of each fold; with one fold all three parts must hold every class.

    Raises:
        InputError: There is one class only, or a class is missing where it is needed.
    """
    for splits in folds:
        check_labels(
            name, labels, classes, splits, required_splits=SPLIT_NAMES if len(folds) == 1 else SPLIT_NAMES[:1]
        )


def check_labels(
    name: str,
    labels: Int[np.ndarray, " item"],
    classes: Sequence[str],
    splits: Splits,
    required_splits: Sequence[str] = SPLIT_NAMES,
) -> None:
    """Refuse labels on which no probe can be selected and tested.

    Args:
        name: Name of the task, for the message.
        labels: Classes from 0.
        classes: Their names.
        splits: The splits.
        required_splits: Names of the splits that must hold every class.

    Raises:
        InputError: There is one class only, or a part lacks one.
    """
    if len(classes) < 2:
        reason = f"one class only ({classes[0]!r})" if classes else "no labelled example"
        raise InputError(f"task {name!r}: {reason}; a probe needs two, take a larger corpus or limit")
    for split in required_splits:
        present = set(labels[getattr(splits, split)].tolist())
        missing = [label for index, label in enumerate(classes) if index not in present]
        if missing:
            raise InputError(
                f"task {name!r}: class {missing[0]!r} has no example in split {split!r}; "
                "take a larger corpus or limit"
            )


def check_states(name: str, states: Float[np.ndarray, "layer item d_model"]) -> None:
    """Refuse states that are not finite.

    Raises:
        InputError: Naming the first such layer.
    """
    for layer, rows in enumerate(states):
        invalid = ~np.isfinite(rows).all(axis=1)
        if invalid.any():
            raise InputError(
                f"task {name!r}: {int(invalid.sum())} of {len(rows)} states of layer {layer} are NaN or "
                f"infinite; {explain_nan()}"
            )
