"""Examples in three disjoint parts, once or fold by fold, and what is refused before a fit; no torch here."""

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
    """Rows of the three disjoint parts: fit on the first, choose on the second, report on the third."""

    train: Int[np.ndarray, " train"]
    valid: Int[np.ndarray, " valid"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def of(cls, split: Sequence[str]) -> Parts:
        """The parts of rows by the name of their split."""
        names = np.asarray(split, dtype=str)
        return cls(*(np.flatnonzero(names == part) for part in PARTS))


def grouped_folds(
    labels: Int[np.ndarray, " item"], groups: Int[np.ndarray, " item"], folds: int, seed: int
) -> tuple[Parts, ...]:
    """Parts of as many folds, so that every item is tested once by probes that saw nothing of its group.

    Whole groups are dealt to folds, each class alike in all as far as groups allow. In turn each fold is
    tested and the next one chooses penalties and layers; all others train.

    Args:
        labels: Classes, to be alike in all folds.
        groups: What must not be parted, one number an item.
        folds: At least three; fewer where there are fewer groups.
        seed: Deals otherwise.

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
        name: What is probed, for the message.
        labels: Classes from 0.
        classes: Their names.
        folds: The parts of each fold; of one alone, all three must hold every class.

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
    """Refuse labels on which no probe can be chosen and tested.

    Args:
        name: What is probed, for the message.
        labels: Classes from 0.
        classes: Their names.
        parts: The parts.
        needed: Those that must hold every class.

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
