"""Paired comparison: against slow arithmetic in words, under no difference, and with planted effects."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sonde.comparison.differences import (
    DIFFERENCES_COLUMNS,
    Difference,
    compute_differences,
    differences_to_frame,
)
from sonde.results import Mean, Score, mean_rows, means, r2_rows, trained_rows
from sonde.results.score_pairs import ComparableMetric, pair_scores
from sonde.stats.estimate import Contributions

TEMPLATE = Score(model="a", lens="probe", metric="accuracy", value=0.0, n=0, n_clusters=0)
OTHER = dataclasses.replace(TEMPLATE, model="b")
ACCURACY = ComparableMetric(metric="accuracy", direction="higher")


def cluster_names(rng: np.random.Generator, clusters: int, mean_size: float) -> list[str]:
    sizes = np.maximum(1, rng.lognormal(np.log(mean_size), 0.7, clusters).astype(int))
    return [f"c{place}" for place, size in enumerate(sizes) for _ in range(size)]


def held_against(first: Sequence[Score], second: Sequence[Score]) -> list[Difference]:
    return compute_differences([(one, two, "higher") for one, two in zip(first, second, strict=True)])


def test_a_difference_of_means_is_the_t_test_of_what_clusters_differ_by() -> None:
    rng = np.random.default_rng(0)
    clusters = [f"c{place // 10}" for place in range(200)]
    nats = rng.normal(3.0, 1.0, (2, 200))
    frame = pl.DataFrame({"cluster": clusters, "one": nats[0], "two": nats[1]})
    one, two = (
        list(means(frame, [Mean("bits", pl.col(name), "nonnegative", factor=1.5)], template))
        for name, template in (("one", TEMPLATE), ("two", OTHER))
    )
    (found,) = held_against(one, two)
    # Clusters are of one size, so the sandwich is the plain t-test of their mean differences.
    apart = 1.5 * (nats[1] - nats[0]).reshape(20, 10).mean(axis=1)
    test = stats.ttest_1samp(apart, 0.0)
    low, high = test.confidence_interval(0.95)
    # On either side the bootstrap-t may ask for more, and the test with it.
    below = (found.value - found.low) / (apart.mean() - low)
    above = (found.high - found.value) / (high - apart.mean())
    assert found.value == pytest.approx(apart.mean())
    assert min(below, above) >= 1 - 1e-9 and max(below, above) < 1.1
    facing = below if found.value > 0 else above
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(test.statistic) / facing, 19))
    error = stats.sem(apart)
    reach = stats.t.ppf(0.975, 19) * max(below, above) + stats.t.ppf(0.8, 19)
    assert found.detectable == pytest.approx(reach * error)


def test_clusters_of_any_size_are_left_out_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    clusters = cluster_names(rng, 25, 8)
    right = rng.random((2, len(clusters))) < 0.6
    (found,) = held_against(mean_rows(TEMPLATE, right[:1], clusters), mean_rows(OTHER, right[1:], clusters))
    names = np.array(clusters)
    apart = right[1].astype(float) - right[0]
    value = apart.mean()
    left = [apart[names != name].mean() - value for name in np.unique(names)]
    error = np.sqrt(24 / 25 * np.sum(np.square(left)))
    df = len(names) ** 2 / np.sum(np.unique(names, return_counts=True)[1] ** 2) - 1
    z = np.arctanh(value) + np.array([-1, 1]) * stats.t.ppf(0.975, df) * error / (1 - value**2)
    assert (found.low, found.high) == pytest.approx(tuple(np.tanh(z)))
    assert found.effect == pytest.approx(
        2 * (np.arcsin(np.sqrt(right[1].mean())) - np.arcsin(np.sqrt(right[0].mean())))
    )


def test_the_order_of_clusters_and_their_numbers_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    numbers = np.repeat(np.arange(15), 6)
    right = rng.random((2, 90)) < 0.5
    order = rng.permutation(90)
    names = [f"c{number:02}" for number in numbers]
    first = mean_rows(TEMPLATE, right[:1], names)
    second = mean_rows(OTHER, right[1:, order], [names[place] for place in order])
    by_number = [score.over(sorted(set(names))) for score in mean_rows(OTHER, right[1:], numbers)]
    (one,), (two,) = held_against(first, second), held_against(first, by_number)
    assert (one.low, one.high, one.p_value) == pytest.approx((two.low, two.high, two.p_value))


def test_a_model_held_against_itself_differs_in_nothing_and_there_is_no_finding() -> None:
    rng = np.random.default_rng(3)
    clusters = cluster_names(rng, 30, 10)
    right = rng.random((4, len(clusters))) < 0.7
    layers = [{"layer": layer} for layer in range(4)]
    rows = mean_rows(TEMPLATE, right, clusters, layers)
    for one in held_against(rows, mean_rows(OTHER, right, clusters, layers)):
        assert (one.value, one.outcome) == (0.0, "alike")
        # Never of zero width: one pair could always have been told apart.
        assert one.low < 0.0 < one.high


def test_what_rests_on_too_little_is_tested_with_nothing_and_says_why() -> None:
    rng = np.random.default_rng(4)
    clusters = [f"c{place % 5}" for place in range(500)]
    right = np.stack([np.zeros(500, bool), rng.random(500) < 0.9])
    (found,) = held_against(mean_rows(TEMPLATE, right[:1], clusters), mean_rows(OTHER, right[1:], clusters))
    assert found.p_value < 0.05
    assert np.isnan(found.p_adjusted)
    assert found.outcome == "undecided"
    assert "5 effective clusters" in found.why


def test_one_training_a_side_gives_no_verdict_and_five_have_their_noise_in_the_interval() -> None:
    rng = np.random.default_rng(5)
    clusters = [f"c{place // 8}" for place in range(400)]
    noisy = rng.random((5, 400)) < rng.normal(0.6, 0.06, 5)[:, None]
    other = rng.random((5, 400)) < rng.normal(0.7, 0.06, 5)[:, None]
    for seeds in (1, 5):
        first = trained_rows(dataclasses.replace(TEMPLATE, seeds=seeds), noisy[:seeds], clusters)
        second = trained_rows(dataclasses.replace(OTHER, seeds=seeds), other[:seeds], clusters)
        (found,) = held_against(first, second)
        if seeds == 1:
            assert "1 seed" in found.why
            continue
        noise = sum(side.mean(axis=1).var(ddof=1) / 5 for side in (noisy, other))
        apart = (other.mean(0) - noisy.mean(0)).reshape(50, 8).mean(axis=1)
        error = np.sqrt(noise + apart.var(ddof=1) / 50)
        reach = stats.t.ppf(0.975, found.df) + stats.t.ppf(0.8, found.df)
        assert found.detectable == pytest.approx(reach * error, rel=1e-6)
        assert found.df < 49


def test_statistics_that_are_no_ratio_are_paired_by_what_they_move_without_each_cluster() -> None:
    rng = np.random.default_rng(6)
    clusters = [f"c{place // 20}" for place in range(800)]
    gold = rng.normal(size=800)
    said = np.stack([gold + rng.normal(0, scale, 800) for scale in (0.9, 0.8)])
    first, second = (
        r2_rows(side, gold, one[None], clusters) for side, one in zip((TEMPLATE, OTHER), said, strict=True)
    )
    (found,) = held_against(first, second)

    def apart(kept: np.ndarray) -> float:
        spread = ((gold[kept] - gold[kept].mean()) ** 2).sum()
        one, two = (1 - ((gold - each)[kept] ** 2).sum() / spread for each in said)
        return two - one

    names = np.array(clusters)
    whole = apart(np.ones(800, bool))
    left = [apart(names != name) - whole for name in np.unique(names)]
    error = np.sqrt(39 / 40 * np.sum(np.square(left)))
    assert found.value == pytest.approx(whole)
    wider = (found.high - found.value) / (stats.t.ppf(0.975, 39) * error)
    assert 1 - 1e-6 <= wider < 1.2


def swapped(first: Sequence[Score], second: Sequence[Score], rng: np.random.Generator) -> list[Difference]:
    """The comparison with the models' labels exchanged in a random half of the clusters."""
    names = np.unique(np.concatenate([one.contributions.clusters for one in first if one.contributions]))
    turned = dict(zip(names.tolist(), (rng.random(len(names)) < 0.5).tolist(), strict=True))
    sides: tuple[list[Score], list[Score]] = ([], [])
    for pair in zip(first, second, strict=True):
        one, two = (score.contributions for score in pair)
        assert isinstance(one, Contributions)
        assert isinstance(two, Contributions)
        assert one.sums is not None
        assert two.sums is not None
        turn = np.array([turned[name] for name in one.clusters.tolist()])
        sums = np.where(turn, two.sums, one.sums), np.where(turn, one.sums, two.sums)
        for side, score, held, own in zip(sides, pair, (one, two), sums, strict=True):
            value = float(own.sum() / held.weight.sum())
            side.append(
                dataclasses.replace(score, value=value, contributions=dataclasses.replace(held, sums=own))
            )
    return held_against(*sides)


@pytest.mark.parametrize("p", [0.5, 0.95])
@pytest.mark.parametrize("clusters", [15, 60])
def test_of_two_hundred_comparisons_without_a_difference_at_most_nine_in_a_hundred_find_one(
    clusters: int, p: float
) -> None:
    rng = np.random.default_rng(clusters)
    names = cluster_names(rng, clusters, 12)
    own = np.array([int(name[1:]) for name in names])
    # Both models find the same clusters hard, and the models truly differ; labels are exchanged at random.
    hard = rng.normal(0, 0.15, (40, clusters))[:, own]
    right = [rng.random((40, len(names))) < np.clip(p + hard + step, 0.02, 0.98) for step in (0.0, 0.02)]
    layers = [{"layer": layer} for layer in range(40)]
    first, second = (
        mean_rows(side, one, names, layers) for side, one in zip((TEMPLATE, OTHER), right, strict=True)
    )
    found = [
        any(one.outcome not in ("undecided", "alike") for one in swapped(first, second, rng))
        for _ in range(200)
    ]
    assert np.mean(found) <= 0.09


def test_power_grows_with_the_planted_effect_and_pairing_is_worth_it() -> None:
    rng = np.random.default_rng(7)
    power: list[float] = []
    for effect in (0.02, 0.08, 0.2):
        found = []
        for _ in range(60):
            names = cluster_names(rng, 40, 20)
            own = np.array([int(name[1:]) for name in names])
            hard = np.clip(rng.normal(0.6, 0.15, 40)[own], 0, 1)
            base = rng.random(len(names)) < hard
            flipped = rng.random(len(names))
            model = np.where(flipped < effect, True, np.where(flipped < 1.3 * effect, False, base))
            (one,) = held_against(
                mean_rows(TEMPLATE, base[None], names), mean_rows(OTHER, model[None], names)
            )
            found.append(one.outcome == "better")
        power.append(float(np.mean(found)))
    assert power[0] < power[1] < power[2]
    # Gains of 0.4, 1.8 and 4.4 points, where an accuracy over 40 clusters alone has an interval of some 8.
    assert power[2] > 0.85


def test_rows_are_paired_by_what_they_answer() -> None:
    rng = np.random.default_rng(8)
    clusters = [f"c{place // 10}" for place in range(200)]
    right = rng.random((5, 200)) < 0.5
    layers = [{"layer": layer, "pooling": "mean"} for layer in range(4)]
    best = {"layer": 1, "pooling": "mean", "dimensions": (("selection", "best"),)}
    first = mean_rows(TEMPLATE, right, clusters, [*layers, best])
    second = mean_rows(OTHER, right, clusters, [*layers, {**best, "layer": 3}])
    found = pair_scores(first, second, [ACCURACY], same_tokens=True)
    # Each layer is compared with the same layer, the chosen one with the chosen one.
    assert [(one.layer, two.layer) for one, two, _ in found.pairs] == [(0, 0), (1, 1), (2, 2), (3, 3), (1, 3)]
    last = [dataclasses.replace(score, pooling="last") for score in second]
    found = pair_scores(first, last, [ACCURACY], same_tokens=True)
    assert not found.pairs
    assert {one.reason for one in found.unpaired} == {"pooling differs: last against mean"}
    assert sum(one.count for one in found.unpaired) == 10


def test_controls_training_parts_and_other_metrics_are_not_compared() -> None:
    rows = [
        dataclasses.replace(TEMPLATE, control="length"),
        dataclasses.replace(TEMPLATE, split="valid"),
        dataclasses.replace(TEMPLATE, metric="coverage"),
    ]
    assert not pair_scores(rows, rows, [ACCURACY], same_tokens=True).pairs


def test_numbers_over_other_observations_are_refused() -> None:
    clusters = [f"c{place // 10}" for place in range(200)]
    right = np.ones((1, 200), bool)
    found = pair_scores(
        mean_rows(TEMPLATE, right, clusters),
        mean_rows(OTHER, right[:, :190], clusters[:190]),
        [ACCURACY],
        same_tokens=True,
    )
    assert [one.reason for one in found.unpaired] == ["observations differ: 200 against 190"]


def test_the_table_has_every_declared_column() -> None:
    clusters = [f"c{place // 10}" for place in range(200)]
    right = np.random.default_rng(9).random((2, 200)) < 0.5
    found = held_against(mean_rows(TEMPLATE, right[:1], clusters), mean_rows(OTHER, right[1:], clusters))
    frame = differences_to_frame(found)
    assert frame.columns == list(DIFFERENCES_COLUMNS)
    row = frame.row(0, named=True)
    assert row["difference"] == pytest.approx(row["value"] - row["base_value"])
    assert (row["base"], row["model"]) == ("a", "b")


def test_texts_in_other_words_are_compared_by_numbers_that_do_not_count_their_subwords() -> None:
    """As many programs, other numbers of subwords: each side is a ratio of its own sums."""
    rng = np.random.default_rng(1)
    sides: list[list[Score]] = []
    for rows, template in ((300, TEMPLATE), (420, OTHER)):
        frame = pl.DataFrame(
            {"cluster": [f"c{place % 15}" for place in range(rows)], "x": rng.normal(3.0, 1.0, rows)}
        )
        asked = [
            Mean(name, pl.col("x"), "nonnegative") for name in ("bits", "by_character", "by_token", "rate")
        ]
        sides.append(list(means(frame, asked, template)))
    wanted = [
        ComparableMetric(metric="bits", tokenizers="same"),
        ComparableMetric(metric="by_character", tokenizers="other"),
        ComparableMetric(metric="by_token", tokenizers="changed"),
        ComparableMetric(metric="rate"),
    ]
    found = pair_scores(*sides, wanted, same_tokens=False, texts_differ=True)
    assert [one.metric for one, _, _ in found.pairs] == ["by_token", "rate"]
    assert found.unpaired == []
    difference = compute_differences(found.pairs)[0]
    assert difference.value == pytest.approx(sides[1][2].value - sides[0][2].value)
    assert difference.low < difference.value < difference.high
    alone = pair_scores(*sides, wanted, same_tokens=True)
    assert alone.pairs == []
    assert {one.reason for one in alone.unpaired} == {"observations differ: 300 against 420"}
