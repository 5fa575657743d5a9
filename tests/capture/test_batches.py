from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonde.capture.windows import batch_by_length, pad_rows


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120), st.randoms())
def test_batches_hold_each_row_once_under_the_budget_in_any_order(
    lengths: list[int], budget: int, shuffle: random.Random
) -> None:
    keys = [f"{index:03d}" for index in range(len(lengths))]
    batches = batch_by_length(lengths, keys, budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget
    order = list(range(len(lengths)))
    shuffle.shuffle(order)
    again = batch_by_length([lengths[i] for i in order], [keys[i] for i in order], budget)
    assert [[order[row] for row in batch] for batch in again] == batches


def test_padding_stands_on_the_right() -> None:
    stacked = pad_rows([np.array([1, 2, 3]), np.array([4])], 9)
    assert stacked.tolist() == [[1, 2, 3], [4, 9, 9]]
