"""Items laid end to end, so that a column of their subwords is computed for all of them at once.

Items stand a character apart. The labels of a subword are those of the span of characters that contains or
touches it, such as the innermost construct around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.alignment import Alignment
from sonde.alignment.align import trim_spans
from sonde.capture.requests import Prepared
from sonde.languages import LANGUAGES
from sonde.languages.engine.text import whitespace_mask


def take_strings(values: Sequence[str], rows: Int[np.ndarray, " row"]) -> pl.Series:
    """Return the string of each row; of row -1 the last one."""
    return pl.Series(values, dtype=pl.String)[rows]


def keep_strings(values: pl.Series, is_kept: Bool[np.ndarray, " row"], replacement: str = "") -> pl.Series:
    """Replace the strings of rows that are not kept."""
    return values.zip_with(pl.Series(is_kept), pl.Series([replacement]))


_SPAN_BATCH = 16


@dataclass(frozen=True, slots=True, eq=False)
class PieceSpans:
    """The characters of each piece that count: spaces at its ends are left out, unless it has no others.

    Attributes:
        start: First character.
        end: One past the last character; equal to ``start`` where a piece covers nothing.
        length: Characters of the text.
    """

    start: Int[np.ndarray, " piece"]
    end: Int[np.ndarray, " piece"]
    length: int

    @classmethod
    def trim(cls, text: str, start: Int[np.ndarray, " piece"], end: Int[np.ndarray, " piece"]) -> PieceSpans:
        """Trim the spaces of a tokenizer's spans."""
        ink_start, ink_end = trim_spans(start, end, ~whitespace_mask(text))
        holds_ink = ink_start < ink_end
        return cls(np.where(holds_ink, ink_start, start), np.where(holds_ink, ink_end, end), len(text))


def shortest_spans(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], length: int
) -> Int[np.ndarray, " character"]:
    """Return the shortest span over each character, -1 for none; of equally long ones the later.

    Longer spans are painted first, so that shorter ones remain on top.
    """
    span_numbers = np.full(length, -1, np.int32)
    order = np.argsort(start - end, kind="stable")
    for span, left, right in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        span_numbers[left:right] = span
    return span_numbers


def at_ends(
    span_numbers: Int[np.ndarray, " character"], pieces: PieceSpans
) -> tuple[Int[np.ndarray, " piece"], Int[np.ndarray, " piece"]]:
    """Return the spans over the first and the last character of each piece; -1 for an empty piece."""
    extended = np.append(span_numbers, np.int32(-1))
    covers = pieces.end > pieces.start
    first = np.where(covers, extended[np.minimum(pieces.start, pieces.length)], -1)
    last = np.where(covers, extended[np.maximum(pieces.end, 1) - 1], -1)
    return first, last


def innermost_spans(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], pieces: PieceSpans
) -> Int[np.ndarray, " piece"]:
    """Return the shortest span that contains each piece, -1 for none; of equally long ones the later."""
    first, last = at_ends(shortest_spans(start, end, pieces.length), pieces)
    innermost = np.where(first == last, first, -1)
    # A piece over two constructs is held by an outer one, if any. Neighbours have few spans in common.
    crossing = np.flatnonzero((first != last) & (first >= 0) & (last >= 0))
    for batch in np.split(crossing, range(_SPAN_BATCH, len(crossing), _SPAN_BATCH)) if len(crossing) else ():
        left, right = pieces.start[batch], pieces.end[batch]
        neighbours = np.flatnonzero((start <= left.max()) & (end >= right.min()))[::-1]
        if len(neighbours):
            holds = (start[neighbours] <= left[:, None]) & (end[neighbours] >= right[:, None])
            size = np.where(holds, (end - start)[neighbours], np.iinfo(np.int32).max)
            innermost[batch] = np.where(holds.any(axis=1), neighbours[size.argmin(axis=1)], -1)
    return innermost


# Stands between items, so that no span of one touches another; it is not blank.
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Items laid end to end.

    Attributes:
        prepared: The items.
        base: For each item the place of its first character.
        row: For each item the row of its first subword, then the total number of rows.
        item: For each subword its item.
        pieces: The subwords.
        layout: Subwords of spaces only.
        merged: Code tokens that each subword lies in.
    """

    prepared: Sequence[Prepared]
    base: Int[np.ndarray, " item"]
    row: Int[np.ndarray, " item_and_end"]
    item: Int[np.ndarray, " subword"]
    pieces: PieceSpans
    layout: Bool[np.ndarray, " subword"]
    merged: Int[np.ndarray, " subword"]

    @classmethod
    def from_items(cls, prepared_items: Sequence[Prepared]) -> Layout:
        """Lay items end to end."""
        texts = [prepared_item.item.text for prepared_item in prepared_items]
        base = np.cumsum([0, *(len(text) + len(_SEPARATOR) for text in texts)])[:-1]
        sizes = [len(prepared_item.alignment.subwords) for prepared_item in prepared_items]
        item = np.repeat(np.arange(len(prepared_items)), sizes)
        start, end = (
            base[item]
            + np.concatenate(
                [getattr(prepared_item.alignment.subwords, side) for prepared_item in prepared_items]
            )
            for side in ("start", "end")
        )
        token_counts = np.concatenate(
            [prepared_item.alignment.last - prepared_item.alignment.first for prepared_item in prepared_items]
        )
        pieces = PieceSpans.trim(_SEPARATOR.join(texts), start, end)
        return cls(
            prepared_items, base, np.cumsum([0, *sizes]), item, pieces, token_counts == 0, token_counts
        )

    def column(self, values: Callable[[Alignment], np.ndarray]) -> np.ndarray:
        """Concatenate a column of all items."""
        return np.concatenate([values(prepared_item.alignment) for prepared_item in self.prepared])

    def strings(self, values: Callable[[Alignment], Sequence[str]]) -> list[str]:
        """Concatenate a column of strings of all items."""
        return list(chain.from_iterable(values(prepared_item.alignment) for prepared_item in self.prepared))

    def of_items(self, value: Callable[[Prepared], str]) -> pl.Series:
        """Repeat a value of each item for all of its subwords."""
        return take_strings([value(prepared_item) for prepared_item in self.prepared], self.item)

    def labels(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the label rows of these items, with spans moved to the layout's positions."""
        bases = {
            prepared_item.item.item_id: base
            for prepared_item, base in zip(self.prepared, self.base.tolist(), strict=True)
        }
        base = np.array([bases.get(key, -1) for key in table["item_id"].to_list()], np.int64)
        rows = np.flatnonzero(base >= 0)
        item_rows = table[rows]
        layout_spans = {side: item_rows[side].to_numpy() + base[rows] for side in ("start", "end")}
        return item_rows.with_columns(
            **{side: pl.Series(positions) for side, positions in layout_spans.items()}
        )


def constructs(layout: Layout) -> pl.Series:
    """Return the innermost construct around each subword; empty for blanks and without a construct."""
    labels: list[str] = []
    start: list[int] = []
    end: list[int] = []
    languages = {
        name: LANGUAGES.load(name)
        for name in {prepared_item.tree.language for prepared_item in layout.prepared}
    }
    for prepared_item, base in zip(layout.prepared, layout.base.tolist(), strict=True):
        for construct in languages[prepared_item.tree.language].constructs(prepared_item.tree):
            labels.append(construct.label)
            start.append(base + construct.start)
            end.append(base + construct.end)
    spans = innermost_spans(np.array(start, np.int64), np.array(end, np.int64), layout.pieces)
    return keep_strings(take_strings([*labels, ""], spans), ~layout.layout)
