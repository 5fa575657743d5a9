from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sonde.stats.metrics import average_ranks, equal_mass_bins, expected_calibration_error, spearman


def test_calibration_error_by_hand() -> None:
    # Two of four right at a confidence of 0.9 in one bin; one of one at 0.8 in the other.
    error = expected_calibration_error(np.array([[3.6, 0.8]]), np.array([[2.0, 1.0]]), np.array([[4.0, 1.0]]))
    assert error == pytest.approx([(1.6 + 0.2) / 5])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60).filter(any), st.integers(1, 12))
def test_equal_mass_bins_keep_the_order_and_are_even_within_a_step(count: list[int], bins: int) -> None:
    steps = np.array(count, float)
    found = equal_mass_bins(steps, bins)
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0
    assert found.max() < bins
    masses = np.bincount(found, steps, minlength=bins)
    assert masses.max() <= steps.sum() / bins + steps.max() + 1e-9


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=30))
def test_spearman_equals_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(values, float) for values in zip(*pairs, strict=True))
    found = spearman(x[None], y[None])[0]
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(x, y).statistic)


@given(st.lists(st.one_of(st.floats(-3, 3), st.sampled_from([0.0, -0.0, 1.0])), min_size=1, max_size=40))
def test_ranks_equal_scipys(values: list[float]) -> None:
    assert average_ranks(np.array(values)).tolist() == stats.rankdata(values).tolist()


def test_spearman_leaves_out_what_a_draw_does_not_hold() -> None:
    x = np.array([[1.0, 2, np.nan, 4], [1.0, 2, 3, 4]])
    y = np.array([[1.0, 3, 100, 2], [4.0, 3, 2, 1]])
    assert spearman(x, y) == pytest.approx([0.5, -1.0])
    assert np.isnan(spearman(np.array([[1.0, np.nan]]), np.array([[1.0, 2.0]])))
