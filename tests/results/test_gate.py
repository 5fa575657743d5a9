"""A gate's error spent over looks, its verdicts, and its rates in a short simulation."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from tests.calibration.gate import EIGHT_BITS, LOOKS, compare_damaged, count_alarms, count_found

from sonde.base.errors import UsageError
from sonde.comparison.gate import judge_checkpoint
from sonde.results.scores import Score
from sonde.stats.estimate import Contributions
from sonde.stats.intervals import Bounds, move_to_level
from sonde.stats.looks import ERROR, spend_error

_CLUSTERS = 40


def test_no_more_than_all_of_the_error_is_spent() -> None:
    assert sum(spend_error(look, 7, 100) * 7 for look in range(1, 101)) == pytest.approx(ERROR)
    assert sum(spend_error(look, 3) * 3 for look in range(1, 100_000)) == pytest.approx(ERROR, rel=1e-4)
    with pytest.raises(UsageError, match="101 at a training of 100 planned looks"):
        spend_error(101, 7, 100)


def test_an_interval_moved_to_a_level_is_that_of_students_t() -> None:
    value, error, df = np.array([0.3]), 0.1, np.array([12.0])
    reach = stats.t.ppf(0.975, 12) * error
    moved = move_to_level(value, Bounds(value - reach, value + reach), df, "real", 1e-4)
    assert moved.high[0] - 0.3 == pytest.approx(stats.t.ppf(1 - 1e-4, 12) * error)
    z = np.arctanh(0.3) + np.array([-1, 1]) * reach
    moved = move_to_level(value, Bounds(np.tanh(z[:1]), np.tanh(z[1:])), df, "difference", 1e-4)
    assert np.arctanh(moved.low[0]) == pytest.approx(np.arctanh(0.3) - stats.t.ppf(1 - 1e-4, 12) * error)


def _score(change: float, spread: float = 0.01, **fields: object) -> Score:
    rng = np.random.default_rng(0)
    weight = np.full(_CLUSTERS, 100.0)
    noise = rng.standard_normal(_CLUSTERS)
    noise = (noise - noise.mean()) / noise.std()
    sums = weight * (3.0 + change + (spread * noise if change else 0.0))
    names = np.array([f"c{number}" for number in range(_CLUSTERS)], object)
    score = Score(
        model="new" if change else "old",
        lens="surprisal",
        metric="bits",
        value=float(sums.sum() / weight.sum()),
        n=4000,
        n_clusters=_CLUSTERS,
        contributions=Contributions(clusters=names, weight=weight, sums=sums, kind="nonnegative"),
    )
    return dataclasses.replace(score, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "spread", "finding"),
    [
        (0.05, 0.01, "fail"),
        (0.008, 0.01, "slight"),
        (0.03, 0.06, "warn"),
        (0.01, 0.2, "open"),
        (-0.05, 0.01, "pass"),
        (0.0, 0.0, "pass"),
    ],
)
def test_each_finding(change: float, spread: float, finding: str) -> None:
    judged = judge_checkpoint([(_score(0.0), _score(change, spread), "lower")], 1, 100)
    (row,) = judged.rows
    assert row.finding == finding
    assert judged.verdict == (finding if finding in ("fail", "warn") else "pass")
    assert bool(judged.suspects) == (finding in ("fail", "slight", "warn"))
    error = spread / math.sqrt(_CLUSTERS - 1)
    if change:
        reach = stats.t.ppf(1 - ERROR / 100 / 2, _CLUSTERS - 1) * error
        # The bootstrap-t may ask for more.
        assert reach * 0.99 < row.high - change < 1.2 * reach


def test_of_what_is_better_higher_a_fall_is_a_loss() -> None:
    pair = (_score(0.0), _score(-0.05), "higher")
    assert judge_checkpoint([pair], 1).verdict == "fail"


def test_a_gate_seldom_alarms_without_a_change() -> None:
    assert count_alarms(6, LOOKS, 1) <= 2


def test_a_planted_loss_is_found_within_three_looks() -> None:
    assert count_found(20, 9, 1) >= 19


@pytest.mark.parametrize("spread", [EIGHT_BITS, 0.24])
def test_damage_below_five_thousandths_of_a_bit_is_named_in_its_construct(spread: float) -> None:
    assert sum(compare_damaged([draw], 9, spread) for draw in range(20)) >= 19
    assert sum(compare_damaged([draw], 9, spread, turn=True) for draw in range(20)) <= 1
