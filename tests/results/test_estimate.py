from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from sonde.stats.estimate import (
    ClusterSums,
    Estimates,
    cluster_sums,
    estimate_differences,
    estimate_ratios,
    jackknife,
    kish,
)
from sonde.stats.resampling import bootstrap


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


def without_skew(found: Estimates, index: int = 0) -> tuple[float, float, float]:
    """The value and the ends of Student's interval, from an interval that skew made wider."""
    value = found.value[index]
    below, above = (value - found.low[index], found.high[index] - value)
    return (
        value,
        value - below / found.width_factor.low[index],
        value + above / found.width_factor.high[index],
    )


clusters = st.lists(st.tuples(st.floats(-50, 50), st.integers(1, 40)), min_size=2, max_size=12)


@given(st.lists(clusters, min_size=1, max_size=5))
def test_many_groups_at_once_equal_each_group_alone(groups: list[list[tuple[float, int]]]) -> None:
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    cluster = np.concatenate([np.arange(len(rows)) for rows in groups])
    x = np.array([x for rows in groups for x, _ in rows])
    w = np.array([float(w) for rows in groups for _, w in rows])
    found = estimate_ratios(ClusterSums(group, cluster, x, w, len(groups)), "real")
    for index, rows in enumerate(groups):
        expected = slow_ratio(np.array([x for x, _ in rows]), np.array([float(w) for _, w in rows]))
        assert without_skew(found, index) == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)
        alone = estimate_ratios(
            one_group(np.array([x for x, _ in rows]), np.array([float(w) for _, w in rows])), "real"
        )
        assert [side[index] for side in found.width_factor] == pytest.approx(
            [side[0] for side in alone.width_factor]
        )
        assert found.n_clusters[index] == len(rows)


def test_clusters_of_equal_size_give_the_t_interval_of_their_means() -> None:
    means = np.array([1.0, 2.0, 4.0, 7.0, 1.5])
    found = estimate_ratios(one_group(means * 10, np.full(5, 10.0)), "real")
    low, high = stats.t.interval(0.95, 4, means.mean(), stats.sem(means))
    assert without_skew(found)[1:] == pytest.approx((low, high))


def test_a_single_cluster_has_a_value_and_no_interval() -> None:
    found = estimate_ratios(one_group(np.array([6.0]), np.array([3.0])), "real")
    assert found.value[0] == 2.0
    assert np.isnan(found.low[0])
    assert np.isnan(found.high[0])


def test_clusters_without_weight_change_nothing() -> None:
    x, w = np.array([3.0, 5.0, 1.0, 0.0]), np.array([2.0, 2.0, 1.0, 0.0])
    with_empty, without = (estimate_ratios(one_group(*part), "real") for part in ((x, w), (x[:3], w[:3])))
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
    found = estimate_ratios(ClusterSums(*rows, x.ravel(), w.ravel(), worlds), "real")
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
    paired = estimate_differences(sides[0], sides[1], "real")
    assert 0.92 <= np.mean((paired.low <= 0) & (paired.high >= 0)) <= 0.98
    alone = estimate_ratios(sides[0], "real")
    assert np.median(paired.high - paired.low) < 0.3 * np.median(alone.high - alone.low)


@given(clusters, st.integers(0, 5))
def test_difference_equals_leaving_clusters_out_of_both_sides(
    rows: list[tuple[float, int]], missing: int
) -> None:
    x, w = np.array([x for x, _ in rows]), np.array([float(w) for _, w in rows])
    other = np.arange(len(x)) >= min(missing, len(x) - 2)
    first = one_group(x, w)
    second = ClusterSums(np.zeros(other.sum(), int), np.flatnonzero(other), w[other], w[other] + 1, 1)
    found = estimate_differences(first, second, "real")
    sums = np.stack([x, w, np.where(other, w, 0), np.where(other, w + 1, 0)], axis=1)
    slow = jackknife(
        lambda t: t[:, 0] / t[:, 1] - t[:, 2] / t[:, 3],
        sums,
        min(w, np.where(other, w + 1, 0), key=kish),
        "real",
    )
    assert found.value[0] == pytest.approx(slow.value[0], abs=1e-9)
    assert found.low[0] == pytest.approx(slow.low[0], rel=1e-6, abs=1e-6, nan_ok=True)


def test_jackknife_of_a_ratio_is_the_clustered_ratio() -> None:
    x, w = draw(12, 1, np.random.default_rng(0))
    fast = estimate_ratios(one_group(x[0], w[0]), "real")
    slow = jackknife(lambda t: t[:, 0] / t[:, 1], np.stack([x[0], w[0]], axis=1), w[0], "real")
    assert (slow.value[0], slow.low[0]) == pytest.approx((fast.value[0], fast.low[0]))


def test_bootstrap_of_a_ratio_is_near_the_jackknife_and_repeats_with_its_seed() -> None:
    x, w = draw(60, 1, np.random.default_rng(1))
    table = np.stack([x[0], w[0]], axis=1)

    def run(sums: np.ndarray | sparse.csr_array, seed: int) -> Estimates:
        def ratio(t: np.ndarray) -> np.ndarray:
            return t[:, 0] / t[:, 1]

        return bootstrap(ratio, sums, w[0], np.random.default_rng(seed), "real", replicates=2000)

    drawn, exact = run(table, 5), estimate_ratios(one_group(x[0], w[0]), "real")
    assert drawn.value[0] == pytest.approx(exact.value[0])
    assert drawn.high[0] - drawn.low[0] == pytest.approx(exact.high[0] - exact.low[0], rel=0.15)
    assert run(table, 5).low[0] == drawn.low[0]
    assert run(sparse.csr_array(table), 5).low[0] == pytest.approx(drawn.low[0])
    assert run(table, 6).low[0] != drawn.low[0]


def test_kish_counts_equal_clusters_and_discounts_unequal_ones() -> None:
    assert kish(np.full(7, 3.0)) == pytest.approx(7)
    assert kish(np.array([100.0, 1, 1, 1])) == pytest.approx(1.06, abs=0.01)
    assert kish(np.zeros(3)) == 0


def test_bits_stay_above_zero() -> None:
    found = estimate_ratios(one_group(np.array([0.0, 0.0, 9.0]), np.ones(3)), "nonnegative")
    assert 0.0 < found.low[0] < found.value[0] < found.high[0]
    # Nothing is left to take a logarithm of, and nothing varies.
    nothing = estimate_ratios(one_group(np.zeros(3), np.ones(3)), "nonnegative")
    assert nothing.low[0] == nothing.value[0] == nothing.high[0] == 0.0


def test_positive_means_have_student_s_interval_of_their_logarithm() -> None:
    x, w = draw(40, 1, np.random.default_rng(4))
    found = estimate_ratios(one_group(x[0], w[0]), "nonnegative")
    half = stats.t.ppf(0.975, found.df[0]) * found.error[0] / found.value[0]
    expected = np.exp(
        np.log(found.value[0]) + half * np.array([-found.width_factor.low[0], found.width_factor.high[0]])
    )
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(expected))


def test_a_few_clusters_do_not_let_the_upper_end_run_off() -> None:
    found = estimate_ratios(one_group(np.array([1.0, 1.0, 90.0]), np.ones(3)), "nonnegative")
    half = found.width_factor.high[0] * stats.t.ppf(0.975, found.df[0]) * found.error[0]
    assert half > found.value[0]
    assert found.high[0] == pytest.approx(found.value[0] + (np.e - 1) * half)


shares = st.lists(
    st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=12
)


@given(st.lists(shares, min_size=1, max_size=4))
def test_proportions_stay_between_0_and_1_hold_the_estimate_and_have_a_width(
    groups: list[list[tuple[int, int]]],
) -> None:
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    cluster = np.concatenate([np.arange(len(rows)) for rows in groups])
    x, w = (np.array([row[at] for rows in groups for row in rows], dtype=float) for at in (0, 1))
    for kind in ("proportion", "unit"):
        found = estimate_ratios(ClusterSums(group, cluster, x, w, len(groups)), kind)
        known = np.isfinite(found.low)
        assert (known == (found.effective >= 2)).all()
        assert (found.low[known] >= 0).all()
        assert (found.high[known] <= 1).all()
        assert (found.low[known] <= found.value[known] + 1e-12).all()
        assert (found.high[known] >= found.value[known] - 1e-12).all()
        assert (found.high[known] - found.low[known] > 1e-6).all()


def test_none_of_forty_is_not_certainly_none() -> None:
    found = estimate_ratios(one_group(np.zeros(20), np.full(20, 2.0)), "proportion")
    assert (found.value[0], found.low[0]) == (0.0, 0.0)
    # At most three successes more than none would still have been missed one time in twenty.
    assert 0.05 < found.high[0] < 0.2


def test_independent_observations_give_the_interval_of_clopper_and_pearson() -> None:
    x = np.array([1.0] * 30 + [0.0] * 70)
    found = estimate_ratios(one_group(x, np.ones(100)), "proportion")
    exact = stats.binomtest(30, 100).proportion_ci(method="exact")
    assert found.n_eff[0] == pytest.approx(100, rel=0.02)
    assert (found.low[0], found.high[0]) == pytest.approx((exact.low, exact.high), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("icc", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("clusters", [5, 12, 60])
@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_intervals_of_proportions_cover(p: float, clusters: int, icc: float) -> None:
    """Each world alone, so that nothing is pooled: the hardest case. Symmetric intervals cover 13 to 96 %."""
    worlds, rng = 600, np.random.default_rng(int(1000 * p) + clusters + int(10 * icc))
    sizes = np.maximum(1, rng.lognormal(2.5, 0.7, (worlds, clusters)).astype(int))
    rates = np.full(sizes.shape, p)
    if icc and 0 < p < 1:
        strength = (1 - icc) / icc
        rates = rng.beta(p * strength, (1 - p) * strength, sizes.shape)
    hits = rng.binomial(sizes, rates).astype(float)
    covered = 0
    for x, w in zip(hits, sizes.astype(float), strict=True):
        found = estimate_ratios(one_group(x, w), "proportion")
        # Below two effective clusters there is no interval, and nothing is claimed.
        covered += bool(np.isnan(found.low[0]) or found.low[0] <= p <= found.high[0])
    least = 1.0 if p in (0.0, 1.0) else 0.90 if clusters == 5 or p in (0.02, 0.98) else 0.93
    assert covered / worlds >= least


def paired(
    first: float, second: float, clusters: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether two methods are right about the same examples, which both share with their cluster."""
    sizes = np.maximum(1, rng.lognormal(2.0, 0.6, clusters).astype(int))
    where = np.repeat(np.arange(clusters), sizes)
    shared = rng.normal(0, 0.7, clusters)[where] + rng.normal(0, 0.7, len(where))
    cut = [stats.norm.ppf(p) * np.sqrt(1 + 2 * 0.49) for p in (first, second)]
    sides = [(shared + rng.normal(0, 1, len(where)) < c).astype(float) for c in cut]
    return sides[0], sides[1], where


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(0.5, 0.5), (0.1, 0.05), (0.95, 0.9), (0.7, 0.5), (0.9, 0.2)])
@pytest.mark.parametrize("clusters", [12, 60])
def test_intervals_of_paired_differences_cover(first: float, second: float, clusters: int) -> None:
    worlds, rng, covered = 500, np.random.default_rng(clusters), 0
    for _ in range(worlds):
        one, two, where = paired(first, second, clusters, rng)
        apart = one - two
        found = estimate_ratios(
            cluster_sums(apart[None], where), "difference", squares=np.array([(apart**2).sum()])
        )
        covered += bool(found.low[0] <= first - second <= found.high[0])
        assert -1 <= found.low[0] < found.high[0] <= 1
        # Table and interval never disagree.
        assert (found.p_value[0] < 0.05) == (not found.low[0] <= 0 <= found.high[0])
    assert covered / worlds >= 0.93


def test_pairs_that_all_fall_one_way_are_told_by_their_number() -> None:
    for pairs, decided in ((5, False), (200, True)):
        where = np.arange(pairs) % 20 if pairs > 20 else np.arange(pairs)
        apart = np.ones(pairs)
        found = estimate_ratios(
            cluster_sums(apart[None], where), "difference", squares=np.array([float(pairs)])
        )
        assert found.high[0] == 1.0
        assert (found.low[0] > 0) == decided == (found.p_value[0] < 0.05)
        mirrored = estimate_ratios(
            cluster_sums(-apart[None], where), "difference", squares=np.array([float(pairs)])
        )
        assert (mirrored.low[0], mirrored.high[0]) == (-1.0, -found.low[0])


def test_no_pair_told_apart_leaves_room_for_one() -> None:
    where = np.repeat(np.arange(12), 5)
    found = estimate_ratios(cluster_sums(np.zeros((1, 60)), where), "difference", squares=np.zeros(1))
    assert -0.1 < found.low[0] < 0 < found.high[0] < 0.1
    assert found.p_value[0] == 1.0


def test_a_difference_of_statistics_that_are_equal_everywhere_leaves_room_for_one_observation() -> None:
    sums = np.full((12, 2), 5.0)
    found = jackknife(lambda t: t[:, 0] / t[:, 1] - 1.0, sums, np.full(12, 5.0), "difference")
    assert found.low[0] < 0 < found.high[0]


@pytest.mark.parametrize("kind", ["proportion", "unit"])
def test_a_mean_of_shares_that_no_cluster_moves_has_a_width(kind: str) -> None:
    sums = np.array([[1.0, 24.0]] * 12)
    found = jackknife(lambda t: t[:, 0] / t[:, 1] + 1e-18, sums, np.full(12, 5.0), kind)
    assert 0 <= found.low[0] < found.value[0] < found.high[0] <= 1


def test_correlations_keep_within_their_bounds_and_r2_below_1() -> None:
    def correlation(t: np.ndarray) -> np.ndarray:
        return t[:, 2] / np.sqrt(t[:, 0] * t[:, 1])

    rng = np.random.default_rng(3)
    x = rng.normal(size=(15, 8))
    y = x + 0.15 * rng.normal(size=x.shape)
    sums = np.stack([(x * x).sum(1), (y * y).sum(1), (x * y).sum(1)], axis=1)
    found = jackknife(correlation, sums, np.full(15, 8.0), "correlation")
    assert 0.9 < found.low[0] < found.value[0] < found.high[0] < 1
    cut = jackknife(lambda t: 1 - t[:, 0] / t[:, 1], np.abs(rng.normal(size=(6, 2))), np.ones(6), "r2")
    assert cut.high[0] <= 1
