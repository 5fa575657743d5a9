"""What a difference amounts to, by its interval and the least size that matters."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from sonde.base.errors import UnknownNameError, UsageError
from sonde.comparison.differences import Outcome, compute_differences, differences_to_frame
from sonde.comparison.summary import count_outcomes, format_counts
from sonde.results import Mean, Score, means
from sonde.results.text_format import OUTCOMES
from sonde.stats.power import detectable_difference, discovery_level
from sonde.stats.verdict import (
    check_minimum_effects,
    classify_effect,
    is_difference,
    minimum_effect,
    parse_minimum_effects,
)


@pytest.mark.parametrize(
    ("value", "low", "high", "sure", "expected"),
    [
        (0.02, 0.01, 0.03, True, "higher"),
        (-0.02, -0.03, -0.01, True, "lower"),
        # Sure, and its estimate is less than matters: wherever the far end lies.
        (0.004, 0.001, 0.007, True, "slight"),
        (-0.004, -0.02, -0.001, True, "slight"),
        # As large as matters is enough.
        (0.005, 0.001, 0.009, True, "higher"),
        # Not sure: an interval wholly within what matters is an answer, another one is none.
        (0.001, -0.003, 0.0049, False, "alike"),
        (0.001, -0.003, 0.0051, False, "undecided"),
        (0.02, -0.01, 0.05, False, "undecided"),
        # Sure alone and not among several, by less than matters throughout.
        (0.002, 0.001, 0.003, False, "alike"),
        (float("nan"), float("nan"), float("nan"), False, "undecided"),
    ],
)
def test_what_a_difference_amounts_to(
    value: float, low: float, high: float, sure: bool, expected: str
) -> None:
    assert classify_effect(value, low, high, 0.005, is_sure=sure) == expected


def test_where_nothing_is_known_to_be_too_small_a_sure_difference_counts() -> None:
    assert classify_effect(1e-4, 5e-5, 2e-4, 0.0, is_sure=True) == "higher"
    assert classify_effect(0.0, -1e-9, 1e-9, 0.0, is_sure=False) == "undecided"


def test_sizes_are_in_the_unit_of_the_metric() -> None:
    assert minimum_effect("accuracy", "Korn-Graubard") == minimum_effect(
        "gain", "paired clustered jackknife, Fisher's z"
    )
    assert minimum_effect("accuracy", "Korn-Graubard") == 0.01
    assert minimum_effect("mrr", "clustered jackknife, logit") == 0.01
    # Four bytes per subword; nats are bits in another unit.
    assert minimum_effect("bits", "clustered jackknife, log, bootstrap-t") == pytest.approx(
        4 * minimum_effect("bits_per_byte", "")
    )
    assert minimum_effect("nats", "") == pytest.approx(minimum_effect("bits", "") * np.log(2), rel=1e-3)
    assert minimum_effect("mine", "clustered jackknife, log, bootstrap-t") == 0.0
    assert minimum_effect("mine", "clustered jackknife", {"mine": 3.0}) == 3.0
    assert is_difference("p_at_k_gain") and is_difference("excess") and not is_difference("accuracy")


def test_sizes_that_cannot_be_meant_are_refused() -> None:
    assert parse_minimum_effects(["accuracy=0.02", "bits=0"]) == {"accuracy": 0.02, "bits": 0.0}
    for text in ("accuracy", "accuracy=", "accuracy=much"):
        with pytest.raises(UsageError, match="write METRIC=SIZE"):
            parse_minimum_effects([text])
    with pytest.raises(UnknownNameError, match="did you mean 'accuracy'"):
        check_minimum_effects({"acuracy": 0.02}, ["accuracy", "bits"])
    for size in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="least size of bits"):
            check_minimum_effects({"bits": size}, ["bits"])


TEMPLATE = Score(model="a", lens="surprisal", metric="", value=0.0, n=0, n_clusters=0)


def pair(shift: float, noise: float, seed: int, name: str) -> tuple[Score, Score, str]:
    """Bits of two models in forty clusters, the second's higher by ``shift``."""
    rng = np.random.default_rng(seed)
    hard = rng.lognormal(1, 0.3, 400)
    apart = rng.normal(0, noise, 400)
    frame = pl.DataFrame(
        {
            "cluster": [f"c{place % 40}" for place in range(400)],
            "a": hard,
            "b": hard + shift + apart - apart.mean(),
        }
    )
    own = dataclasses.replace(TEMPLATE, dimensions=(("construct", name),))
    one, two = (
        next(
            iter(
                means(
                    frame, [Mean("bits", pl.col(side), "nonnegative")], dataclasses.replace(own, model=side)
                )
            )
        )
        for side in "ab"
    )
    return one, two, "lower"


def test_a_comparison_says_better_and_worse_only_of_what_matters() -> None:
    pairs = [
        pair(-0.2, 0.05, 1, "better"),
        pair(0.2, 0.05, 2, "worse"),
        pair(-0.005, 0.002, 3, "slight"),
        pair(0.001, 0.05, 4, "alike"),
        pair(0.01, 2.0, 5, "undecided"),
    ]
    expected: list[Outcome] = ["better", "worse", "slight", "alike", "undecided"]
    found = compute_differences(pairs)
    assert [one.outcome for one in found] == expected
    assert {one.minimum_effect for one in found} == {0.02}
    (row,) = count_outcomes(differences_to_frame(found))
    assert {name: row[name] for name in OUTCOMES} == {
        **dict.fromkeys(OUTCOMES, 0),
        **dict.fromkeys(expected, 1),
    }
    assert format_counts(row) == (
        "1 better, 1 worse, 1 apart by less than matters, 1 without a difference that matters, "
        "1 with no difference found; of 5 numbers"
    )
    # Whoever asks decides what matters.
    assert [one.outcome for one in compute_differences(pairs, {"bits": 0.0})] == [
        *("better", "worse", "better", "undecided", "undecided")
    ]
    assert [one.outcome for one in compute_differences(pairs, {"bits": 1.0})] == [
        *(["slight"] * 3),
        *(["alike"] * 2),
    ]


def test_what_would_have_been_found_is_said_at_the_level_of_the_family() -> None:
    alone = compute_differences([pair(0.01, 2.0, 5, "one")])[0]
    assert alone.detectable == pytest.approx(
        detectable_difference(alone.error, alone.df, 0.05, alone.width_factor)
    )
    family = compute_differences([pair(0.01, 2.0, seed, str(seed)) for seed in range(20)])
    assert {one.outcome for one in family} == {"undecided"}
    for one in family:
        assert one.detectable == pytest.approx(
            detectable_difference(one.error, one.df, 0.05 / 20, one.width_factor)
        )
    # A finding beside it makes the next one easier.
    level = discovery_level(20, 1)
    assert level == pytest.approx(0.05 * 2 / 20)
    beside = compute_differences(
        [*(pair(0.01, 2.0, seed, str(seed)) for seed in range(19)), pair(-0.2, 0.05, 1, "better")]
    )
    assert beside[0].detectable == pytest.approx(
        detectable_difference(beside[0].error, beside[0].df, level, beside[0].width_factor)
    )
