"""What labels of a user's own are: classes as they are, or numbers that are given a class by quartile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

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


@dataclass(frozen=True, slots=True)
class OwnClasses:
    """The class of each label.

    Attributes:
        named: Label to class, where labels are classes.
        edges: Where labels are numbers, the largest number of each quarter but the last.
        quarters: Name of the class of each quarter that enough rows have.
    """

    named: Mapping[str, OwnClass]
    edges: Sequence[float] = ()
    quarters: Mapping[int, str] = field(default_factory=dict[int, str])

    def of(self, label: str) -> OwnClass | None:
        """The class of a label; None for one of a class that too few rows have."""
        if not self.quarters:
            return self.named.get(label)
        value = _number(label)
        name = None if value is None else self.quarters.get(bisect_left(self.edges, value))
        return None if name is None else OwnClass(name, value)


def own_classes(labels: pl.Series, kind: str, corpus: str) -> OwnClasses:
    """The class of each label.

    Args:
        labels: The label of every row, as text.
        kind: ``"classes"``, ``"numbers"``, or empty where the labels decide.
        corpus: The corpus as named, for messages.

    Raises:
        InputError: There are more classes than can be told apart, or none that enough rows have; or a label
            is no number where numbers were promised.
    """
    counts = labels.alias("label").to_frame().group_by("label", maintain_order=True).len("rows")
    values = counts["label"].map_elements(_number, pl.Float64, skip_nulls=True)
    if kind == "numbers" and values.null_count():
        bad = counts["label"].filter(values.is_null())[0]
        raise InputError(f"corpus {corpus!r}: label {bad[:60]!a} is no number; leave out kind=numbers")
    are_numbers = not values.null_count() and values.n_unique() > _NUMBERS
    if kind == "numbers" or (are_numbers and not kind):
        return _by_quartile(values.to_numpy(), counts["rows"].to_numpy())
    kept = counts.filter(pl.col("rows") >= FEWEST_ROWS)["label"]
    if kept.is_empty() or len(kept) > MOST_CLASSES:
        raise InputError(
            f"corpus {corpus!r}: {len(counts):,} different labels in {len(labels):,} rows, of which "
            f"{len(kept):,} stand in {FEWEST_ROWS} rows or more; a label is one of 2 to "
            f"{MOST_CLASSES} classes, or a number"
        )
    return OwnClasses({label: OwnClass(label) for label in kept})


def _number(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _by_quartile(values: npt.NDArray[np.float64], rows: npt.NDArray[np.uint32]) -> OwnClasses:
    """Classes of about as many rows each, named by their order and by what they hold."""
    edges = np.unique(np.quantile(np.repeat(values, rows), _QUARTERS))
    quarter = np.searchsorted(edges, values)
    names: dict[int, str] = {}
    for order, place in enumerate(np.unique(quarter).tolist(), 1):
        inside = quarter == place
        if rows[inside].sum() >= FEWEST_ROWS:
            names[place] = f"{order} ({values[inside].min():g} to {values[inside].max():g})"
    return OwnClasses({}, edges.tolist(), names)
