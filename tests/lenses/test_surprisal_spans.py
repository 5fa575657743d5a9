from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonde.lenses.engine.layout import PieceSpans, innermost_spans, shortest_spans
from sonde.lenses.surprisal.observe import overlaps_spans

TEXT = st.text(st.sampled_from("ab \n\té　\ufeff😀"), min_size=1, max_size=20)


def cut(text: str, borders: list[int]) -> tuple[np.ndarray, np.ndarray]:
    places = sorted({0, len(text), *(border % (len(text) + 1) for border in borders)})
    return np.array(places[:-1], np.int32), np.array(places[1:], np.int32)


def blank(character: str) -> bool:
    return character.isspace() or character in "​⁠\ufeff"


@given(TEXT, st.lists(st.integers(0, 20), max_size=8))
def test_pieces_lose_the_blanks_at_their_ends_and_nothing_else(text: str, borders: list[int]) -> None:
    start, end = cut(text, borders)
    pieces = PieceSpans.trim(text, start, end)
    for left, right, first, last in zip(start, end, pieces.start, pieces.end, strict=True):
        inked = [place for place in range(left, right) if not blank(text[place])]
        assert (first, last) == ((inked[0], inked[-1] + 1) if inked else (left, right))


def test_empty_pieces_stay_empty() -> None:
    pieces = PieceSpans.trim("ab", np.array([0, 1, 2]), np.array([1, 1, 2]))
    assert pieces.start.tolist() == [0, 1, 2]
    assert pieces.end.tolist() == [1, 1, 2]
    assert innermost_spans(np.array([0]), np.array([2]), pieces).tolist() == [0, -1, -1]
    assert overlaps_spans(0, 2, pieces).tolist() == [True, False, False]


SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=6)


@given(SPANS, st.lists(st.integers(0, 12), max_size=8))
def test_the_innermost_span_is_the_shortest_that_holds_the_piece(
    spans: list[tuple[int, int]], borders: list[int]
) -> None:
    text = "a" * 12
    held = [(left, min(left + size, 12)) for left, size in spans if left < 12]
    start = np.array([left for left, _ in held], np.int32)
    end = np.array([right for _, right in held], np.int32)
    pieces = PieceSpans.trim(text, *cut(text, borders))
    found = innermost_spans(start, end, pieces)
    for piece, (left, right) in enumerate(zip(pieces.start, pieces.end, strict=True)):
        holding = [(e - s, -index) for index, (s, e) in enumerate(held) if s <= left and right <= e]
        assert found[piece] == (-min(holding)[1] if holding else -1)


def test_shorter_spans_lie_on_longer_ones() -> None:
    assert shortest_spans(np.array([0, 2]), np.array([6, 4]), 7).tolist() == [0, 0, 1, 1, 0, 0, -1]
    assert shortest_spans(np.zeros(0, int), np.zeros(0, int), 2).tolist() == [-1, -1]
