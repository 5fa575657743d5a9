"""Which part of a long text is read: a window around the place where two examples of one function differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sonde.alignment.spans import Subwords

Span = tuple[int, int]


def touching(found: Subwords, stretch: Span) -> range:
    """The subwords that show some characters; of no characters, those on both sides of the place."""
    start, end = stretch
    if start == end:
        start, end = start - 1, end + 1
    at = np.flatnonzero((found.end > start) & (found.start < end))
    return range(int(at[0]), int(at[-1]) + 1) if len(at) else range(0)


def begins(texts: Sequence[Subwords], evidence: Sequence[Span], room: int, share: float) -> list[int]:
    """The first subword that is read of each text of one function: the same character in all of them.

    Args:
        texts: The texts, alike up to where they differ.
        evidence: Where they differ.
        room: Subwords that can be read.
        share: How much of the rest of the window stands before the place: a half has it in the middle.

    Returns:
        For each text its first subword; all are read from the beginning where all fit.
    """
    places = [touching(text, stretch) for text, stretch in zip(texts, evidence, strict=True)]
    free = max(0, room - max(map(len, places)))
    most = max(map(len, texts)) - room
    first = min(places[0].start - round(share * free), most)
    if first <= 0:
        return [0] * len(texts)
    character = texts[0].start[first]
    return [int(np.searchsorted(text.start, character)) for text in texts]
