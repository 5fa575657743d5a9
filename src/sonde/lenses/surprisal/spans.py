"""Spans of characters laid over the pieces of a tokenizer: which one holds a piece, which ones touch it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from sonde.languages._text import blank

_TOGETHER = 16


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """The characters that count of each piece: blanks at its ends are left out, unless it has no others.

    Attributes:
        start: First character.
        end: One past the last character; equal to ``start`` where a piece covers nothing.
        length: Characters of the text.
    """

    start: Int[np.ndarray, " piece"]
    end: Int[np.ndarray, " piece"]
    length: int

    @classmethod
    def of(cls, text: str, start: Int[np.ndarray, " piece"], end: Int[np.ndarray, " piece"]) -> Pieces:
        """Trim the blanks of a tokenizer's spans."""
        places = np.arange(len(text) + 1)
        inked = np.append(~blank(text), True)
        following = np.minimum.accumulate(np.where(inked, places, len(text))[::-1])[::-1]
        preceding = np.maximum.accumulate(np.where(inked, places, -1))
        first = following[start]
        last = np.where(end > start, preceding[np.maximum(end, 1) - 1], -1)
        holds_ink = (first < end) & (last >= start)
        return cls(np.where(holds_ink, first, start), np.where(holds_ink, last + 1, end), len(text))


def owners(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], length: int
) -> Int[np.ndarray, " character"]:
    """The shortest span over each character, -1 where there is none; of equally long ones the later.

    Longer spans are painted first, so that shorter ones remain on top.
    """
    painted = np.full(length, -1, np.int32)
    order = np.argsort(start - end, kind="stable")
    for span, left, right in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        painted[left:right] = span
    return painted


def at_ends(
    painted: Int[np.ndarray, " character"], pieces: Pieces
) -> tuple[Int[np.ndarray, " piece"], Int[np.ndarray, " piece"]]:
    """What is painted on the first and on the last character of each piece; -1 for an empty piece."""
    padded = np.append(painted, np.int32(-1))
    covers = pieces.end > pieces.start
    first = np.where(covers, padded[np.minimum(pieces.start, pieces.length)], -1)
    last = np.where(covers, padded[np.maximum(pieces.end, 1) - 1], -1)
    return first, last


def innermost(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], pieces: Pieces
) -> Int[np.ndarray, " piece"]:
    """The shortest span that holds all of a piece, -1 where none does; of equally long ones the later."""
    first, last = at_ends(owners(start, end, pieces.length), pieces)
    found = np.where(first == last, first, -1)
    # A piece over two constructs is held by an outer one, if any. Neighbours have few spans in common.
    apart = np.flatnonzero((first != last) & (first >= 0) & (last >= 0))
    for some in np.split(apart, range(_TOGETHER, len(apart), _TOGETHER)) if len(apart) else ():
        left, right = pieces.start[some], pieces.end[some]
        near = np.flatnonzero((start <= left.max()) & (end >= right.min()))[::-1]
        if len(near):
            holds = (start[near] <= left[:, None]) & (end[near] >= right[:, None])
            size = np.where(holds, (end - start)[near], np.iinfo(np.int32).max)
            found[some] = np.where(holds.any(axis=1), near[size.argmin(axis=1)], -1)
    return found


def touched(start: int, end: int, pieces: Pieces) -> Bool[np.ndarray, " piece"]:
    """Which pieces share a character with a span."""
    return (pieces.start < end) & (pieces.end > start) & (pieces.start < pieces.end)
