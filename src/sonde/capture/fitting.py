"""What fits into memory: found out by what did not, and remembered for as long as a model is loaded."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sonde.capture.row import Row, padded
from sonde.capture.union import MergedRequests


class Fit:
    """Padded tokens that fit into memory, for each kind of work.

    The longest rows come first, and a batch of shorter ones takes no more memory a token: a size that was too
    large once is never tried again.
    """

    def __init__(self) -> None:
        self._most: dict[Hashable, int] = {}

    def parts(self, batch: Sequence[Row], kind: Hashable) -> list[list[Row]]:
        """A batch in as few parts as keep to what fits, in its order; a row alone is always one."""
        most = self._most.get(kind)
        if most is None or padded(batch) <= most:
            return [list(batch)]
        parts: list[list[Row]] = []
        for row in batch:
            if parts and padded([*parts[-1], row]) <= most:
                parts[-1].append(row)
            else:
                parts.append([row])
        return parts

    def lower(self, batch: Sequence[Row], kind: Hashable) -> None:
        """Take in that a batch of several rows did not fit."""
        self._most[kind] = padded(batch[: (len(batch) + 1) // 2])


_fits: WeakKeyDictionary[Any, Fit] = WeakKeyDictionary()


def fit_of(model: Any) -> Fit:
    """What is known of a loaded model."""
    return _fits.setdefault(model, Fit())


def work_of(batch: Sequence[Row], wanted: Sequence[MergedRequests]) -> Hashable:
    """What decides how much memory a token of a batch takes, given what is wanted of its rows."""
    held = any(one.pooling or one.head_spans or one.depth for one in wanted)
    return batch[0].written is None, held, any(one.looks for one in wanted)
