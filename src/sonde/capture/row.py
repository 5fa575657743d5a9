"""One row of a batch: the ids that a model gets, and what is read from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row of a batch: a window over one input.

    Attributes:
        source: Index of the input.
        tokens: Ids as the model gets them, special ones included.
        origin: Subword position of the first column; negative where special tokens stand before the item.
        read_start: First column whose output is used.
        read_stop: One past the last such column.
        query: Columns whose output is scored.
        gold: The id that each of them is scored against.
        target: The subword position of that id.
        first: First subword of the item that the window holds.
        attended: Columns from here on are seen by none; -1 where the model may see all.
        shared: Leading tokens that other rows of the batch may begin with as well; read once for all of them.
        written: What the decoder of an encoder-decoder reads, whose columns are then those of `query`; None
            where nothing but the text is read.
        gap: First subword of a run that one sign stands for; -1 where all subwords stand for themselves.
        hidden: Subwords of that run.
        writes: First subword of the item among what is written, and the column it stands at.
    """

    source: int
    tokens: Int[np.ndarray, " token"]
    origin: int
    read_start: int
    read_stop: int
    query: Int[np.ndarray, " target"]
    gold: Int[np.ndarray, " target"]
    target: Int[np.ndarray, " target"]
    first: int = 0
    attended: int = -1
    shared: int = 0
    written: Int[np.ndarray, " token"] | None = None
    gap: int = -1
    hidden: int = 0
    writes: tuple[int, int] = (0, 1)

    def places(self, subwords: int, side: str, suffix: int) -> Int[np.ndarray, " column"]:
        """The subword of the item at each column, -1 for whatever is no subword of it.

        Args:
            subwords: Of the item.
            side: Side of the model that has the columns; what a decoder that writes reads is counted apart.
            suffix: Special tokens behind the text.
        """
        if side in ("decoder", "cross") and self.written is not None:
            first, column = self.writes
            found = np.arange(len(self.written)) - column + first
            return np.where(np.arange(len(self.written)) < column, -1, found)
        columns = np.arange(len(self.tokens))
        found = columns + self.origin
        if self.gap >= 0:
            behind = found > self.gap
            found = np.where(behind, found + self.hidden - 1, found)
            found[self.gap - self.origin] = -1
        outside = (found < 0) | (found >= subwords) | (columns >= len(self.tokens) - suffix)
        return np.where(outside, -1, found)

    @property
    def size(self) -> int:
        """Tokens that are forwarded."""
        return len(self.tokens) + (0 if self.written is None else len(self.written))

    @property
    def context(self) -> Int[np.ndarray, " target"]:
        """Subwords of the item that stand before each target inside the window."""
        return self.target - self.first


def of_one_length(batch: Sequence[Row], *, alone: bool = False) -> list[list[Row]]:
    """A batch in parts that need no padding, or one row each."""
    if alone:
        return [[row] for row in batch]
    parts: dict[int, list[Row]] = {}
    for row in batch:
        parts.setdefault(len(row.tokens), []).append(row)
    return list(parts.values())


def padded(batch: Sequence[Row]) -> int:
    """Tokens of a batch, padding included."""
    return len(batch) * max(row.size for row in batch)
