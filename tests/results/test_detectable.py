"""What a sample can show: against finished scores, against simulated tests, and its own inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sonde.results import Score, mean_rows
from sonde.results.scores import scores_to_frame
from sonde.stats.estimate import cluster_sums, estimate_differences, kish
from sonde.stats.power import ClusterDesign, detectable_difference, standard_error

TEMPLATE = Score(model="a", lens="probe", metric="accuracy", value=0.0, n=0, n_clusters=0)
ICC = 0.2


def clustered(rng: np.random.Generator, sizes: list[int], icc: float = ICC) -> tuple[np.ndarray, np.ndarray]:
    """Values of standard deviation 1 with an intraclass correlation, and their clusters."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=len(sizes))[owner]
    return math.sqrt(icc) * shared + math.sqrt(1 - icc) * rng.normal(size=len(owner)), owner


def test_clusters_are_counted_as_finished_scores_count_them() -> None:
    sizes = [1, 2, 5, 30]
    owner = np.repeat(np.arange(4), sizes)
    sums = cluster_sums(np.ones((1, 38)), owner)
    found = ClusterDesign.from_sizes(sizes)
    assert found.effective == pytest.approx(float(sums.effective[0])) == kish(np.array(sizes, dtype=float))
    assert found.mean_size == pytest.approx(float(sums.mean_size[0]))


def test_the_error_is_that_of_clustered_values() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, 30).tolist()
    means = [clustered(rng, sizes)[0].mean() for _ in range(4_000)]
    assert ClusterDesign.from_sizes(sizes).error(1.0, ICC) == pytest.approx(np.std(means), rel=0.04)
    assert ClusterDesign.from_sizes(sizes).deviation(
        ClusterDesign.from_sizes(sizes).error(2.5, ICC), ICC
    ) == pytest.approx(2.5)


def test_four_of_five_tests_find_a_detectable_difference() -> None:
    """By the paired test of `sonde compare`, on the items that were planned."""
    rng = np.random.default_rng(1)
    sizes = [12] * 25
    planned = ClusterDesign.from_sizes(sizes)
    difference = planned.detectable(1.0, ICC)
    found = 0
    for _ in range(600):
        values, owner = clustered(rng, sizes)
        here, there = (cluster_sums(one[None], owner) for one in (values + difference, np.zeros_like(values)))
        found += bool(estimate_differences(here, there, "real").low[0] > 0)
    assert found / 600 == pytest.approx(0.8, abs=0.045)


def test_items_needed_give_back_the_difference_that_needs_them() -> None:
    planned = ClusterDesign.from_sizes([10] * 40)
    difference = planned.detectable(1.0)
    assert planned.required_items(difference, 1.0) == pytest.approx(400, abs=1)
    fewer = planned.required_items(1.5 * difference, 1.0)
    assert fewer is not None
    assert ClusterDesign(items=fewer, effective=40).detectable(1.0) == pytest.approx(
        1.5 * difference, rel=0.01
    )


def test_where_no_number_of_items_is_enough_more_clusters_are() -> None:
    planned = ClusterDesign.from_sizes([100] * 12)
    difference = planned.detectable(1.0) / 2
    assert planned.required_items(difference, 1.0) is None
    clusters = planned.required_clusters(difference, 1.0)
    assert clusters is not None
    assert ClusterDesign(items=100 * clusters, effective=clusters).detectable(1.0) <= difference
    assert ClusterDesign(items=100 * clusters - 100, effective=clusters - 1).detectable(1.0) > difference


def test_one_cluster_shows_nothing() -> None:
    assert math.isnan(ClusterDesign.from_sizes([50]).detectable(1.0))
    assert math.isnan(detectable_difference(0.1, 0.5))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_error_of_a_share_is_read_from_its_row(share: float) -> None:
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(30), 10)
    right = rng.random((1, 300)) < share
    (row,) = scores_to_frame(mean_rows(TEMPLATE, right, clusters)).to_dicts()
    found = standard_error(row)
    # Of independent items, and over it a design effect of at least 1 + 9 * 0.05, at the ends 0.2.
    least = math.sqrt(max(row["value"] * (1 - row["value"]), 1 / 300) / 300)
    assert least < found < 3 * least


def test_the_error_of_a_mean_is_half_its_interval_over_the_quantile() -> None:
    row = {"value": 2.0, "ci_low": 1.6, "ci_high": 2.4, "n": 90, "n_eff": None, "df": 8.0}
    assert standard_error(row) == pytest.approx(0.4 / stats.t.ppf(0.975, 8))
    assert math.isnan(standard_error({**row, "ci_low": None}))
    assert math.isnan(standard_error({**row, "df": None}))
