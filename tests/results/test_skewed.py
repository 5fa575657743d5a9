"""The bootstrap-t of means: compared with a slow one with draws of its own, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sonde.stats import intervals
from sonde.stats.estimate import ClusterSums, estimate_differences, estimate_ratios
from sonde.stats.intervals import Kind, bootstrap_t_factors

SLOW_DRAWS = 4000


def slow(raised: np.ndarray, value: float, kind: Kind, seed: int) -> tuple[float, float]:
    """Draw clusters one sample after the other, and studentise each in words."""
    rng, size = np.random.default_rng(seed), len(raised)
    centred = raised - raised.mean()
    drawn = []
    for _ in range(SLOW_DRAWS):
        own = centred[rng.integers(size, size=size)]
        error = own.std(ddof=1) * np.sqrt(size)
        total = own.sum()
        if kind == "nonnegative":
            drawn.append((np.log(value + total) - np.log(value)) / (error / (value + total)))
        else:
            drawn.append(total / error)
    low, high = np.quantile(drawn, [0.025, 0.975])
    student = stats.t.ppf(0.975, size - 1)
    return max(high / student, 1.0), max(-low / student, 1.0)


@pytest.mark.parametrize("kind", ["real", "nonnegative"])
@pytest.mark.parametrize("size", [12, 40, 150])
def test_the_factors_are_those_of_a_slow_bootstrap_t(size: int, kind: Kind) -> None:
    raised = (np.random.default_rng(size).lognormal(0, 0.8, size) - 1.4) / size
    found = bootstrap_t_factors(np.zeros(size, int), raised, np.array([2.0]), kind)
    expected = slow(raised, 2.0, kind, 1)
    # 999 draws give a quantile to some 4 to 8 %.
    assert (found.low[0], found.high[0]) == pytest.approx(expected, rel=0.12)
    assert found.low[0] < found.high[0] or kind == "nonnegative"


def groups(seed: int) -> ClusterSums:
    """Skewed losses of several groups of unlike numbers of clusters."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, 30)
    cluster = np.concatenate([rng.permutation(60)[:size] for size in sizes])
    w = np.ceil(rng.lognormal(2, 1, len(cluster)))
    return ClusterSums(np.repeat(np.arange(30), sizes), cluster, w * rng.lognormal(0, 0.6, len(w)), w, 30)


def test_neither_order_nor_names_nor_company_change_an_interval() -> None:
    sums, rng = groups(0), np.random.default_rng(1)
    found = estimate_ratios(sums, "nonnegative")
    order = rng.permutation(len(sums.x))
    renamed = rng.permutation(60)[sums.cluster]
    turned = ClusterSums(sums.group[order], renamed[order], sums.x[order], sums.w[order], 30)
    again = estimate_ratios(turned, "nonnegative")
    np.testing.assert_allclose((found.low, found.high), (again.low, again.high), rtol=1e-9)
    for group in range(30):
        own = sums.group == group
        alone = ClusterSums(np.zeros(own.sum(), int), sums.cluster[own], sums.x[own], sums.w[own], 1)
        assert estimate_ratios(alone, "nonnegative").high[0] == pytest.approx(
            found.high[group], rel=1e-9, nan_ok=True
        )


def test_a_difference_turned_round_has_its_interval_turned_round() -> None:
    one, other = groups(2), groups(2)
    other = ClusterSums(
        other.group, other.cluster, other.x * np.linspace(0.5, 1.4, len(other.x)), other.w, 30
    )
    there, back = estimate_differences(one, other, "real"), estimate_differences(other, one, "real")
    np.testing.assert_allclose(there.low, -back.high, rtol=1e-9)
    np.testing.assert_allclose(there.high, -back.low, rtol=1e-9)


def test_the_test_rejects_where_the_interval_excludes_zero() -> None:
    rng = np.random.default_rng(5)
    x = rng.lognormal(0, 1, (400, 20)) - 1.0
    place = np.divmod(np.arange(8000), 20)
    found = estimate_ratios(ClusterSums(*place, x.ravel(), np.ones(8000), 400), "real")
    p_value = 2 * stats.t.sf(np.abs(found.value / (found.error * found.facing_zero)), found.df)
    excluded = (found.low > 0) | (found.high < 0)
    assert 20 < excluded.sum() < 380
    assert ((p_value < 0.05) == excluded).all()


def test_what_does_not_vary_and_few_clusters_are_not_made_wider() -> None:
    for raised in (np.zeros(20), np.array([-1.0, 1.0]), np.array([3.0])):
        found = bootstrap_t_factors(np.zeros(len(raised), int), raised, np.ones(1), "real")
        assert (found.low[0], found.high[0]) == (1.0, 1.0)
    alone = bootstrap_t_factors(np.zeros(4, int), np.array([np.inf, 1.0, 2.0, 3.0]), np.ones(1), "real")
    assert (alone.low[0], alone.high[0]) == (1.0, 1.0)
    # Of a bounded kind nothing is made wider.
    bounded = bootstrap_t_factors(np.zeros(20, int), np.arange(20.0) ** 3, np.full(1, 0.5), "proportion")
    assert (bounded.low[0], bounded.high[0]) == (1.0, 1.0)


def test_many_clusters_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = np.random.default_rng(3).lognormal(0, 1, 3000)
    raised -= raised.mean()
    monkeypatch.setattr(intervals, "_CELLS", 100_000)
    found = bootstrap_t_factors(np.zeros(3000, int), raised / 3000, np.ones(1), "nonnegative")
    assert 1.0 <= found.low[0] < 1.1 and 1.0 <= found.high[0] < 1.2
