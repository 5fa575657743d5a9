"""What labels of a user's own are: classes as they are, or numbers that are given a class by quartile."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonde.base.errors import InputError

FEWEST_ROWS = 5
"""Rows of a class below which a split would be without one."""

MOST_CLASSES = 200
_NUMBERS = 10
"""Different numbers up to which they are taken for names of classes."""

_QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class OwnClass:
    """A class, and the number that it is one of where labels are numbers."""

    name: str
    value: float | None = None


def own_classes(labels: Sequence[str], kind: str, corpus: str) -> dict[str, OwnClass]:
    """The class of each label; a label of a class that too few rows have is not among them.

    Args:
        labels: The label of every row.
        kind: ``"classes"``, ``"numbers"``, or empty where the labels decide.
        corpus: The corpus as named, for messages.

    Raises:
        InputError: There are more classes than can be told apart, or none that enough rows have; or a label
            is no number where numbers were promised.
    """
    counts = Counter(labels)
    values = {label: _number(label) for label in counts}
    if kind == "numbers" and (bad := next((one for one, held in values.items() if held is None), None)):
        raise InputError(f"corpus {corpus!r}: label {bad[:60]!a} is no number; leave out kind=numbers")
    numbers = {label: value for label, value in values.items() if value is not None}
    are_numbers = len(numbers) == len(values) and len(set(numbers.values())) > _NUMBERS
    if kind == "numbers" or (are_numbers and not kind):
        classes = _by_quartile(labels, numbers)
        rows = Counter(classes[label].name for label in labels)
        return {label: own for label, own in classes.items() if rows[own.name] >= FEWEST_ROWS}
    kept = {label: OwnClass(label) for label, rows in counts.items() if rows >= FEWEST_ROWS}
    if not kept or len(kept) > MOST_CLASSES:
        raise InputError(
            f"corpus {corpus!r}: {len(counts):,} different labels in {len(labels):,} rows, of which "
            f"{len(kept):,} stand in {FEWEST_ROWS} rows or more; a label is one of 2 to "
            f"{MOST_CLASSES} classes, or a number"
        )
    return kept


def _number(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _by_quartile(labels: Sequence[str], numbers: dict[str, float]) -> dict[str, OwnClass]:
    """Classes of about as many rows each, named by their order and by what they hold."""
    edges = np.unique(np.quantile([numbers[label] for label in labels], _QUARTERS))
    at = {label: int(np.searchsorted(edges, value)) for label, value in numbers.items()}
    held = {place: [numbers[label] for label in at if at[label] == place] for place in set(at.values())}
    names = {
        place: f"{order} ({min(held[place]):g} to {max(held[place]):g})"
        for order, place in enumerate(sorted(held), 1)
    }
    return {label: OwnClass(names[place], numbers[label]) for label, place in at.items()}
