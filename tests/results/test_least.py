"""What a difference amounts to, by its interval and the least size that matters."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest

from sonde.base.errors import UnknownNameError, UsageError
from sonde.comparison.differences import Outcome, compared, differences_frame
from sonde.comparison.summary import counts, in_sentence
from sonde.results import Mean, Score, means
from sonde.results.headlines import OUTCOMES
from sonde.stats.power import detectable, level_asked
from sonde.stats.verdict import amount, check_sizes, is_difference, least_size, sizes_of


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
    assert amount(value, low, high, 0.005, sure=sure) == expected


def test_where_nothing_is_known_to_be_too_small_a_sure_difference_counts() -> None:
    assert amount(1e-4, 5e-5, 2e-4, 0.0, sure=True) == "higher"
    assert amount(0.0, -1e-9, 1e-9, 0.0, sure=False) == "undecided"


def test_sizes_are_in_the_unit_of_the_metric() -> None:
    assert least_size("accuracy", "Korn-Graubard") == least_size(
        "gain", "paired clustered jackknife, Fisher's z"
    )
    assert least_size("accuracy", "Korn-Graubard") == 0.01
    assert least_size("mrr", "clustered jackknife, logit") == 0.01
    # Four bytes a subword; nats are bits in another unit.
    assert least_size("bits", "clustered jackknife, log, bootstrap-t") == pytest.approx(
        4 * least_size("bits_per_byte", "")
    )
    assert least_size("nats", "") == pytest.approx(least_size("bits", "") * np.log(2), rel=1e-3)
    assert least_size("mine", "clustered jackknife, log, bootstrap-t") == 0.0
    assert least_size("mine", "clustered jackknife", {"mine": 3.0}) == 3.0
    assert is_difference("p_at_k_gain") and is_difference("excess") and not is_difference("accuracy")


def test_sizes_that_cannot_be_meant_are_refused() -> None:
    assert sizes_of(["accuracy=0.02", "bits=0"]) == {"accuracy": 0.02, "bits": 0.0}
    for text in ("accuracy", "accuracy=", "accuracy=much"):
        with pytest.raises(UsageError, match="write METRIC=SIZE"):
            sizes_of([text])
    with pytest.raises(UnknownNameError, match="did you mean 'accuracy'"):
        check_sizes({"acuracy": 0.02}, ["accuracy", "bits"])
    for size in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="least size of bits"):
            check_sizes({"bits": size}, ["bits"])


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
    found = compared(pairs)
    assert [one.outcome for one in found] == expected
    assert {one.least for one in found} == {0.02}
    (row,) = counts(differences_frame(found))
    assert {name: row[name] for name in OUTCOMES} == {
        **dict.fromkeys(OUTCOMES, 0),
        **dict.fromkeys(expected, 1),
    }
    assert in_sentence(row) == (
        "1 better, 1 worse, 1 apart by less than matters, 1 without a difference that matters, "
        "1 with no difference found; of 5 numbers"
    )
    # Whoever asks decides what matters.
    assert [one.outcome for one in compared(pairs, {"bits": 0.0})] == [
        *("better", "worse", "better", "undecided", "undecided")
    ]
    assert [one.outcome for one in compared(pairs, {"bits": 1.0})] == [*(["slight"] * 3), *(["alike"] * 2)]


def test_what_would_have_been_found_is_said_at_the_level_of_the_family() -> None:
    alone = compared([pair(0.01, 2.0, 5, "one")])[0]
    assert alone.detectable == pytest.approx(detectable(alone.error, alone.df, 0.05, alone.wider))
    family = compared([pair(0.01, 2.0, seed, str(seed)) for seed in range(20)])
    assert {one.outcome for one in family} == {"undecided"}
    for one in family:
        assert one.detectable == pytest.approx(detectable(one.error, one.df, 0.05 / 20, one.wider))
    # A finding beside it makes the next one easier.
    level = level_asked(20, 1)
    assert level == pytest.approx(0.05 * 2 / 20)
    beside = compared(
        [*(pair(0.01, 2.0, seed, str(seed)) for seed in range(19)), pair(-0.2, 0.05, 1, "better")]
    )
    assert beside[0].detectable == pytest.approx(
        detectable(beside[0].error, beside[0].df, level, beside[0].wider)
    )
