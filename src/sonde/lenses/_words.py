"""Masked models scored like texts: each subword with itself and the rest of its word hidden.

That is PLL-word-l2r (Kauf and Ivanova, ACL 2023). Were a word's later pieces left to be seen, they would give
its beginning away, and words of many pieces would count as likely (Salazar 2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from sonde.alignment.spans import Alignment
from sonde.capture.requests import ItemCapture, ScoredSubwords


def word_by_word(alignment: Alignment) -> tuple[tuple[int, ...], ...]:
    """For each subword of an item the positions masked when it is scored: itself and the rest of its word.

    A word is a code token; layout and pieces over several tokens stand for themselves.
    """
    first, last = alignment.first.tolist(), alignment.last.tolist()
    size = len(first)
    masked: list[tuple[int, ...]] = []
    for position in range(size):
        beyond = position + 1
        if last[position] - first[position] == 1:
            token = (first[position], last[position])
            while beyond < size and (first[beyond], last[beyond]) == token:
                beyond += 1
        masked.append(tuple(range(position, beyond)))
    return tuple(masked)


def whole_words(alignment: Alignment) -> tuple[tuple[int, ...], ...]:
    """The subwords of each word of an item, for models that write a word whole; each is in one of them."""
    words: list[tuple[int, ...]] = []
    for positions in word_by_word(alignment):
        if not words or positions[0] > words[-1][-1]:
            words.append(positions)
    return tuple(words)


def put_together(captures: Sequence[ItemCapture]) -> ScoredSubwords | None:
    """The scores of an item from the captures of its `word_by_word` or `whole_words` inputs, in their order.

    Of each input its first hidden subword counts; where a decoder writes the word, each of them.

    Returns:
        One row a subword; None where there is no capture, or a subword has no score.
    """
    scores = [capture.scores for capture in captures]
    held = [one for one in scores if one is not None]
    if not held or len(held) < len(scores):
        return None
    hidden = [np.flatnonzero(one.scored) for one in held]
    counted = [
        places if capture.written else places[:1] for places, capture in zip(hidden, captures, strict=True)
    ]
    places = np.concatenate(counted)
    if not np.array_equal(places, np.arange(len(held[0].nats))):
        return None
    columns = {
        field.name: np.concatenate(
            [getattr(one, field.name)[own] for one, own in zip(held, counted, strict=True)]
        )
        for field in dataclasses.fields(ScoredSubwords)
    }
    return ScoredSubwords(**columns)
