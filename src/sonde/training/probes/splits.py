"""Train, validation and test splits, once or fold by fold, and checks before a fit; torch is not imported."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sonde.base.errors import InputError, not_finite

PARTS = ("train", "valid", "test")


MIN_FOLDS = 3
"""One fold trains, one chooses, one is tested."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Rows of the three disjoint splits: fit on the first, select on the second, report on the third."""

    train: Int[np.ndarray, " train"]
    valid: Int[np.ndarray, " valid"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def of(cls, split: Sequence[str]) -> Parts:
        """Build splits from the name of each row's split."""
        names = np.asarray(split, dtype=str)
        return cls(*(np.flatnonzero(names == part) for part in PARTS))


def grouped_folds(
    labels: Int[np.ndarray, " item"], groups: Int[np.ndarray, " item"], folds: int, seed: int
) -> tuple[Parts, ...]:
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

    number = min(folds, len(np.unique(groups)))
    if number < MIN_FOLDS:
        raise InputError(
            f"{number} cluster{'s' if number != 1 else ''}, but one to train on, one to choose on and one to "
            "test on are needed: take a corpus of more repositories"
        )
    dealer = StratifiedGroupKFold(n_splits=number, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # A class of fewer items than folds is in some folds alone, which are all that it can be in.
        warnings.simplefilter("ignore", UserWarning)
        tested = [np.sort(test) for _, test in dealer.split(labels, labels, groups)]
    return tuple(
        Parts(
            np.sort(np.concatenate([rows for at, rows in enumerate(tested) if at not in (fold, after)])),
            tested[after],
            tested[fold],
        )
        for fold, after in ((fold, (fold + 1) % number) for fold in range(number))
    )


def check_folds(
    name: str, labels: Int[np.ndarray, " item"], classes: Sequence[str], folds: Sequence[Parts]
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
    for parts in folds:
        check_labels(name, labels, classes, parts, needed=PARTS if len(folds) == 1 else PARTS[:1])


def check_labels(
    name: str,
    labels: Int[np.ndarray, " item"],
    classes: Sequence[str],
    parts: Parts,
    needed: Sequence[str] = PARTS,
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
        held = f"one class only ({classes[0]!r})" if classes else "no labelled example"
        raise InputError(f"task {name!r}: {held}; a probe needs two, take a larger corpus or limit")
    for part in needed:
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
                f"infinite; {not_finite()}"
            )
