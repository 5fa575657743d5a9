from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from sonde.results.inference import (
    TOO_FEW,
    ClusterSums,
    Estimates,
    benjamini_hochberg,
    ci_method,
    cluster_bootstrap,
    clustered_difference,
    clustered_ratio,
    jackknife,
    kish,
    sign_flip_p,
    two_sided_p,
)


def one_group(x: np.ndarray, w: np.ndarray) -> ClusterSums:
    size = len(x)
    return ClusterSums(np.zeros(size, int), np.arange(size), x.astype(float), w.astype(float), 1)


def slow_ratio(x: np.ndarray, w: np.ndarray) -> tuple[float, float, float]:
    """Leave out one cluster after the other, and say it in words."""
    value = x.sum() / w.sum()
    size = len(x)
    moved = [(np.delete(x, c).sum() / np.delete(w, c).sum() - value) ** 2 for c in range(size)]
    deviation = np.sqrt((size - 1) / size * np.sum(moved))
    effective = w.sum() ** 2 / (w**2).sum()
    if effective < 2:
        return value, np.nan, np.nan
    half = stats.t.ppf(0.975, effective - 1) * deviation
    return value, value - half, value + half


clusters = st.lists(st.tuples(st.floats(-50, 50), st.integers(1, 40)), min_size=2, max_size=12)


@given(st.lists(clusters, min_size=1, max_size=5))
def test_many_groups_at_once_equal_each_group_alone(groups: list[list[tuple[float, int]]]) -> None:
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    cluster = np.concatenate([np.arange(len(rows)) for rows in groups])
    x = np.array([x for rows in groups for x, _ in rows])
    w = np.array([float(w) for rows in groups for _, w in rows])
    found = clustered_ratio(ClusterSums(group, cluster, x, w, len(groups)))
    for index, rows in enumerate(groups):
        expected = slow_ratio(np.array([x for x, _ in rows]), np.array([float(w) for _, w in rows]))
        assert (found.value[index], found.low[index], found.high[index]) == pytest.approx(
            expected, rel=1e-6, abs=1e-6, nan_ok=True
        )
        assert found.n_clusters[index] == len(rows)


def test_clusters_of_equal_size_give_the_t_interval_of_their_means() -> None:
    means = np.array([1.0, 2.0, 4.0, 7.0, 1.5])
    found = clustered_ratio(one_group(means * 10, np.full(5, 10.0)))
    low, high = stats.t.interval(0.95, 4, means.mean(), stats.sem(means))
    assert (found.low[0], found.high[0]) == pytest.approx((low, high))


def test_a_single_cluster_has_a_value_and_no_interval() -> None:
    found = clustered_ratio(one_group(np.array([6.0]), np.array([3.0])))
    assert found.value[0] == 2.0
    assert np.isnan(found.low[0])
    assert np.isnan(found.high[0])
    assert found.too_few[0]


def test_clusters_without_weight_change_nothing() -> None:
    x, w = np.array([3.0, 5.0, 1.0, 0.0]), np.array([2.0, 2.0, 1.0, 0.0])
    with_empty, without = clustered_ratio(one_group(x, w)), clustered_ratio(one_group(x[:3], w[:3]))
    assert with_empty.low[0] == without.low[0]
    assert with_empty.n_clusters[0] == 3


def draw(clusters: int, worlds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Skewed observations (mean 1) in clusters of unequal size, each with an effect: sums, sizes."""
    sizes = np.maximum(2, rng.lognormal(3.0, 0.5, (worlds, clusters)).astype(int))
    effects = rng.gamma(4.0, 0.25, (worlds, clusters))
    return rng.gamma(sizes, effects), sizes.astype(float)


@pytest.mark.parametrize("clusters", [15, 30])
def test_intervals_cover_what_they_promise_and_naive_ones_do_not(clusters: int) -> None:
    worlds, rng = 4000, np.random.default_rng(20)
    x, w = draw(clusters, worlds, rng)
    rows = np.repeat(np.arange(worlds), clusters), np.tile(np.arange(clusters), worlds)
    found = clustered_ratio(ClusterSums(*rows, x.ravel(), w.ravel(), worlds))
    covered = np.mean((found.low <= 1) & (found.high >= 1))
    assert 0.92 <= covered <= 0.97

    # Pretend that all observations are independent, even with twice the variance that an exponential has.
    value = x.sum(axis=1) / w.sum(axis=1)
    naive = np.abs(value - 1) <= 1.96 * value * np.sqrt(2) / np.sqrt(w.sum(axis=1))
    assert naive.mean() < 0.75


def test_difference_covers_and_gains_from_pairing() -> None:
    clusters, worlds, rng = 20, 2000, np.random.default_rng(3)
    sizes = np.maximum(2, rng.lognormal(3.0, 0.4, (worlds, clusters)))
    shared = rng.gamma(4.0, 0.5, (worlds, clusters))
    rows = np.repeat(np.arange(worlds), clusters), np.tile(np.arange(clusters), worlds)
    sides = [
        ClusterSums(
            *rows, (sizes * (shared + rng.normal(0, 0.1, shared.shape))).ravel(), sizes.ravel(), worlds
        )
        for _ in range(2)
    ]
    paired = clustered_difference(*sides)
    assert 0.92 <= np.mean((paired.low <= 0) & (paired.high >= 0)) <= 0.98
    alone = clustered_ratio(sides[0])
    assert np.median(paired.high - paired.low) < 0.3 * np.median(alone.high - alone.low)


@given(clusters, st.integers(0, 5))
def test_difference_equals_leaving_clusters_out_of_both_sides(
    rows: list[tuple[float, int]], missing: int
) -> None:
    x, w = np.array([x for x, _ in rows]), np.array([float(w) for _, w in rows])
    other = np.arange(len(x)) >= min(missing, len(x) - 2)
    first = one_group(x, w)
    second = ClusterSums(np.zeros(other.sum(), int), np.flatnonzero(other), w[other], w[other] + 1, 1)
    found = clustered_difference(first, second)
    sums = np.stack([x, w, np.where(other, w, 0), np.where(other, w + 1, 0)], axis=1)
    slow = jackknife(
        lambda t: t[:, 0] / t[:, 1] - t[:, 2] / t[:, 3],
        sums,
        min(kish(w), kish(np.where(other, w + 1, 0))),
    )
    assert found.value[0] == pytest.approx(slow.value[0], abs=1e-9)
    assert found.low[0] == pytest.approx(slow.low[0], rel=1e-6, abs=1e-6, nan_ok=True)


def test_jackknife_of_a_ratio_is_the_clustered_ratio() -> None:
    x, w = draw(12, 1, np.random.default_rng(0))
    fast = clustered_ratio(one_group(x[0], w[0]))
    slow = jackknife(lambda t: t[:, 0] / t[:, 1], np.stack([x[0], w[0]], axis=1), kish(w[0]))
    assert (slow.value[0], slow.low[0]) == pytest.approx((fast.value[0], fast.low[0]))


def test_bootstrap_of_a_ratio_is_near_the_jackknife_and_repeats_with_its_seed() -> None:
    x, w = draw(60, 1, np.random.default_rng(1))
    table = np.stack([x[0], w[0]], axis=1)

    def run(sums: np.ndarray | sparse.csr_array, seed: int) -> Estimates:
        def ratio(t: np.ndarray) -> np.ndarray:
            return t[:, 0] / t[:, 1]

        return cluster_bootstrap(ratio, sums, w[0], np.random.default_rng(seed), replicates=2000)

    drawn, exact = run(table, 5), clustered_ratio(one_group(x[0], w[0]))
    assert drawn.value[0] == pytest.approx(exact.value[0])
    assert drawn.high[0] - drawn.low[0] == pytest.approx(exact.high[0] - exact.low[0], rel=0.15)
    assert run(table, 5).low[0] == drawn.low[0]
    assert run(sparse.csr_array(table), 5).low[0] == pytest.approx(drawn.low[0])
    assert run(table, 6).low[0] != drawn.low[0]


def test_kish_counts_equal_clusters_and_discounts_unequal_ones() -> None:
    assert kish(np.full(7, 3.0)) == pytest.approx(7)
    assert kish(np.array([100.0, 1, 1, 1])) == pytest.approx(1.06, abs=0.01)
    assert kish(np.zeros(3)) == 0


def test_few_effective_clusters_are_said_so() -> None:
    uneven = clustered_ratio(one_group(np.arange(30.0), np.r_[1000.0, np.ones(29)]))
    even = clustered_ratio(one_group(np.arange(30.0), np.ones(30)))
    assert uneven.n_clusters[0] == even.n_clusters[0] == 30
    assert uneven.too_few[0]
    assert not even.too_few[0]
    assert ci_method("m", too_few=True).endswith(TOO_FEW)
    assert ci_method("m", too_few=False) == "m"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_false_discovery_control_equals_scipy(p: list[float]) -> None:
    assert benjamini_hochberg(np.array(p)) == pytest.approx(stats.false_discovery_control(p))


def test_p_values_are_those_of_the_t_test() -> None:
    values = np.array([0.3, 1.2, -0.4, 0.9, 1.1, 0.2])
    found = two_sided_p(clustered_ratio(one_group(values, np.ones(6))))
    assert found[0] == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_sign_flips_are_all_tried_where_they_are_few() -> None:
    values = np.array([0.5, 1.0, -0.2, 0.9])
    sums = [abs(np.dot(signs, values)) for signs in itertools.product([1, -1], repeat=4)]
    expected = np.mean([total >= abs(values.sum()) - 1e-9 for total in sums])
    assert sign_flip_p(values, np.random.default_rng(0)) == pytest.approx(expected)


def test_drawn_sign_flips_agree_with_the_t_test_and_are_never_zero() -> None:
    values = np.random.default_rng(4).normal(0.5, 1.0, 40)
    p = sign_flip_p(values, np.random.default_rng(0))
    assert p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.01)
    assert sign_flip_p(np.full(40, 1.0), np.random.default_rng(0)) == pytest.approx(1e-4)
