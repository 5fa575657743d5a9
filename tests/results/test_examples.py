"""Scores of predictions for a set of examples, against what their formulas say."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import r2_score

from sonde.results import (
    Mean,
    Score,
    mean_rows,
    means,
    r2_rows,
    share_rows,
    spearman_rows,
    statistic_rows,
    trained_rows,
)

TEMPLATE = Score(model="m", lens="mine", metric="right", value=0.0, n=0, n_clusters=0)
RNG = np.random.default_rng(0)
WHERE = [f"c{number}" for number in RNG.integers(0, 15, 200)]
RIGHT = RNG.random((3, 200)) < 0.7


def test_means_of_arrays_are_those_of_a_table() -> None:
    rows = mean_rows(TEMPLATE, RIGHT[:1], WHERE, [{"layer": 2}])
    table = pl.DataFrame({"cluster": WHERE, "right": RIGHT[0]})
    (expected,) = means(table, [Mean("right", pl.col("right"))], TEMPLATE)
    assert rows == [dataclasses.replace(expected, layer=2)]


def test_clusters_may_be_numbers() -> None:
    numbers = np.unique(WHERE, return_inverse=True)[1]
    fields = [{"layer": layer} for layer in range(3)]
    assert mean_rows(TEMPLATE, RIGHT, numbers, fields) == mean_rows(TEMPLATE, RIGHT, WHERE, fields)


def test_shares_of_all_values_add_up_to_one() -> None:
    said = RNG.choice(["a", "b", "c"], 200).tolist()
    rows = share_rows(TEMPLATE.within(("gold", "a")), said, WHERE, "predicted")
    assert [row.dimensions for row in rows] == [(("gold", "a"), ("predicted", value)) for value in "abc"]
    assert sum(row.value for row in rows) == pytest.approx(1)
    assert rows[1].value == pytest.approx(said.count("b") / 200)
    (only,) = share_rows(TEMPLATE, said, WHERE, "predicted", ["c"])
    assert only.value == rows[2].value


def test_what_was_trained_is_averaged_over_seeds_and_compared_on_the_same_examples() -> None:
    (mean,) = trained_rows(TEMPLATE, RIGHT, WHERE)
    assert mean.value == pytest.approx(RIGHT.mean()) and mean.n == 200
    assert mean.ci_method == "Korn-Graubard"
    (gain,) = trained_rows(TEMPLATE, RIGHT[0], WHERE, baseline=RIGHT[1:])
    assert gain.value == pytest.approx(RIGHT[0].mean() - RIGHT[1:].mean())
    assert gain.ci_method.startswith("seeds and paired") and gain.p_value is not None


def test_a_statistic_of_sums_that_is_a_mean_has_the_interval_of_a_mean() -> None:
    table = pl.DataFrame({"cluster": WHERE, "nats": RNG.gamma(2, 1, 200)})
    sums = table.group_by("cluster").agg(pl.col("nats").sum(), n=pl.len()).sort("cluster")
    totals = sums.select("nats", "n").to_numpy().astype(float)

    def mean(rows: np.ndarray) -> np.ndarray:
        return rows[:, 0] / rows[:, 1]

    (found,) = statistic_rows(TEMPLATE, mean, totals, totals[:, 1], "nonnegative")
    (expected,) = means(table, [Mean("right", pl.col("nats"), "nonnegative")], TEMPLATE)
    assert (found.value, found.ci_low, found.ci_high, found.n) == pytest.approx(
        (expected.value, expected.ci_low, expected.ci_high, 200)
    )
    (drawn,) = statistic_rows(TEMPLATE, mean, totals, totals[:, 1], "nonnegative", n=15, seed=1)
    assert drawn.ci_method == "clustered bootstrap, log" and drawn.n == 15 and drawn.value == found.value
    assert statistic_rows(TEMPLATE, lambda rows: rows[:, 0] * np.nan, totals, totals[:, 1], "real") == []


def test_explained_variance_is_that_of_scikit_learn_and_ranks_that_agree_correlate() -> None:
    gold = RNG.normal(size=200)
    said = gold + RNG.normal(scale=0.5, size=(2, 200))
    rows = r2_rows(TEMPLATE, gold, said, WHERE, [{"layer": 0}, {"layer": 1}])
    assert [row.value for row in rows] == pytest.approx([r2_score(gold, one) for one in said])
    (same,) = spearman_rows(TEMPLATE, gold, np.exp(gold), WHERE, seed=0)
    assert same.value == pytest.approx(1)
