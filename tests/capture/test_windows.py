from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import UsageError
from sonde.capture.windows import bidirectional_windows, causal_windows

LENGTHS = st.integers(0, 200)
CONTEXTS = st.integers(1, 40)
STRIDES = st.floats(0.05, 1.0)


@given(LENGTHS, CONTEXTS, STRIDES)
def test_a_causal_position_is_read_once_from_the_first_window_that_holds_it(
    length: int, context: int, stride: float
) -> None:
    step = max(1, int(context * stride))
    windows = causal_windows(length, context, step)
    read = [position for window in windows for position in range(window.read_start, window.read_stop)]
    assert read == list(range(length))
    for window in windows:
        assert window.start <= window.read_start < window.read_stop <= window.stop
        assert 1 <= window.stop - window.start <= context
        for position in range(window.read_start, window.read_stop):
            holders = [one for one in windows if one.start <= position < one.stop]
            assert holders[0] == window
            if window.start > 0:
                assert position - window.start >= context - step


@given(LENGTHS, st.integers(2, 40), st.integers(1, 60))
def test_a_start_token_has_room_in_every_further_window(length: int, context: int, step: int) -> None:
    for windows in (
        causal_windows(length, context, lead=1),
        causal_windows(length, context, step=step, lead=1),
    ):
        read = [position for window in windows for position in range(window.read_start, window.read_stop)]
        assert read == list(range(length))
        for window in windows:
            assert window.start <= window.read_start < window.read_stop <= window.stop
            assert window.stop - window.start + (window.start > 0) <= context


def test_a_context_that_a_start_token_fills_is_refused() -> None:
    assert len(causal_windows(1, 1, lead=1)) == 1
    with pytest.raises(
        UsageError, match="context of 1 has no room for a subword after the start token; give at least 2"
    ):
        causal_windows(3, 1, lead=1)


@given(LENGTHS, CONTEXTS)
def test_half_a_context_stands_before_every_later_target(length: int, context: int) -> None:
    for window in causal_windows(length, context):
        if window.start:
            assert window.read_start - window.start + 1 >= context / 2


@given(LENGTHS, CONTEXTS, STRIDES)
def test_a_bidirectional_position_is_read_once_where_the_border_is_furthest(
    length: int, context: int, stride: float
) -> None:
    windows = bidirectional_windows(length, context, max(1, int(context * stride)))

    def distance(position: int, start: int, stop: int) -> float:
        before = position - start if start else float("inf")
        after = stop - 1 - position if stop < length else float("inf")
        return min(before, after)

    read = [position for window in windows for position in range(window.read_start, window.read_stop)]
    assert read == list(range(length))
    for window in windows:
        assert window.stop - window.start == min(context, length)
        for position in range(window.read_start, window.read_stop):
            assert window.start <= position < window.stop
            best = max(
                distance(position, one.start, one.stop) for one in windows if one.start <= position < one.stop
            )
            assert distance(position, window.start, window.stop) == best


def test_a_context_of_one_reads_every_position() -> None:
    assert [(w.start, w.stop) for w in causal_windows(3, 1)] == [(0, 1), (1, 2), (2, 3)]


def test_no_context_is_refused() -> None:
    with pytest.raises(UsageError, match="context of 0"):
        causal_windows(3, 0)


@given(LENGTHS, CONTEXTS, st.integers(1, 60))
def test_a_stride_in_positions_is_kept_and_leaves_no_gap(length: int, context: int, step: int) -> None:
    for cut in (causal_windows, bidirectional_windows):
        windows = cut(length, context, step=step)
        read = [position for window in windows for position in range(window.read_start, window.read_stop)]
        assert read == list(range(length))
        starts = [window.start for window in windows]
        # The last window of a model that looks both ways is flush with the end.
        moved = [after - before for before, after in pairwise(starts)]
        assert all(one == min(step, context) for one in (moved if cut is causal_windows else moved[:-1]))
