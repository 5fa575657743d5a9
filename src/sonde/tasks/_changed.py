"""Where two versions of a text differ: the shortest stretches of whole code tokens around the change."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.languages._edits import TextPlace
from sonde.languages._text import in_common

Place = tuple[int, int]
"""First character and one past the last."""


def changed_places(
    one: str, other: str, tokens: Sequence[TextPlace], other_tokens: Sequence[TextPlace]
) -> tuple[Place, Place]:
    """The stretch of each of two texts in which they differ.

    What stands before it is the same in both, and so is what stands behind it. A stretch begins and ends
    where code tokens do, so that a name counts whole. Where one text only has more than the other, the token
    behind is part of both stretches (``is None`` and ``is not None`` differ in ``None`` and ``not None``):
    nothing is never likelier than something.

    Args:
        one: A text.
        other: The same otherwise.
        tokens: Code tokens of the first, in text order.
        other_tokens: Those of the second.
    """
    before = in_common(one, other)
    most = min(len(one), len(other)) - before
    behind = min(in_common(one[::-1], other[::-1]), most)
    texts = ((one, tokens), (other, other_tokens))
    # A border that is moved out of a token of one text may then lie inside one of the other.
    while (start := min(_begin(of, before) for _, of in texts)) < before:
        before = start
    while (end := min(_rest(text, of, behind) for text, of in texts)) < behind:
        behind = end
    if min(len(one), len(other)) - behind <= before:
        behind, before = _with_neighbour(texts, before, behind)
    return (before, len(one) - behind), (before, len(other) - behind)


def _begin(tokens: Sequence[TextPlace], place: int) -> int:
    """The beginning of the token that a border lies in; the border itself where it lies in none."""
    return next((token.start for token in tokens if token.start < place < token.end), place)


def _rest(text: str, tokens: Sequence[TextPlace], behind: int) -> int:
    """The characters behind the token that a border lies in, given those behind the border."""
    place = len(text) - behind
    return len(text) - next((token.end for token in tokens if token.start < place < token.end), place)


def _with_neighbour(
    texts: Sequence[tuple[str, Sequence[TextPlace]]], before: int, behind: int
) -> tuple[int, int]:
    """Characters behind and before the stretches with the token behind them, at the end the one before."""
    text, tokens = min(texts, key=lambda one: len(one[0]))
    for token in tokens:
        if token.start >= len(text) - behind:
            return len(text) - token.end, before
    return behind, max((token.start for token in tokens if token.end <= before), default=before)
