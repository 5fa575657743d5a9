"""Which of several numbers is the highest: by simulation, and the words that say it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from sonde.results.extremes import (
    Extreme,
    describe_ends,
    describe_extreme,
    find_extreme,
    list_layers,
    split_by_threshold,
    widen,
)
from sonde.results.text_format import format_estimate, interval, with_interval

DRAWS = 400
CLUSTERS = 20


def row(value: float, half: float = 0.1, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "value": value, "ci_low": value - half, "ci_high": value + half, "df": CLUSTERS - 1.0,
        "effective_clusters": float(CLUSTERS), "n_clusters": CLUSTERS, "n_eff": None, "seeds": None,
        "name": value,
    }  # fmt: skip
    return fields | more


def sample(rng: np.random.Generator, means: list[float], together: float = 0.0) -> list[dict[str, Any]]:
    """Means over clusters with Student's interval; ``together`` is what the numbers of a cluster share."""
    size = (CLUSTERS, len(means))
    values = np.array(means) + rng.normal(size=size) + together * rng.normal(size=(CLUSTERS, 1))
    half = t.ppf(0.975, CLUSTERS - 1) * values.std(0, ddof=1) / CLUSTERS**0.5
    return [
        row(float(value), float(width), name=name)
        for name, (value, width) in enumerate(zip(values.mean(0), half, strict=True))
    ]


def names(extreme: Extreme | None) -> set[Any]:
    return set() if extreme is None else {held["name"] for held in extreme.rows}


@pytest.mark.parametrize(("size", "together"), [*itertools.product((2, 3, 10, 40), (0.0, 1.0))])
def test_a_single_winner_among_equals_is_named_in_one_draw_of_twenty(size: int, together: float) -> None:
    rng = np.random.default_rng([size, int(together)])
    draws = [sample(rng, [0.0] * size, together) for _ in range(DRAWS)]
    single = sum(found.is_single for rows in draws if (found := find_extreme(rows)))
    either = sum(bool(re.search(r"\) (wins|loses)", said_of(rows))) for rows in draws)
    # 5 % of the draws, and three standard errors of a simulation.
    bound = DRAWS * 0.05 + 3 * (DRAWS * 0.05 * 0.95) ** 0.5
    assert single <= bound
    assert either <= bound
    assert sum(0 in names(find_extreme(rows)) for rows in draws) >= DRAWS - bound


def said_of(rows: list[dict[str, Any]]) -> str:
    return describe_ends(
        rows, lambda held: str(held["name"]), with_interval, noun="values", verbs=("wins", "loses")
    )


def test_one_far_ahead_is_named_alone_and_two_are_named_together() -> None:
    rng = np.random.default_rng(1)
    alone = [find_extreme(sample(rng, [3.0, *[0.0] * 9])) for _ in range(DRAWS)]
    assert sum(names(found) == {0} for found in alone) >= 0.99 * DRAWS
    lowest = [find_extreme(sample(rng, [-3.0, *[0.0] * 9]), largest=False) for _ in range(DRAWS)]
    assert sum(names(found) == {0} for found in lowest) >= 0.99 * DRAWS
    two = [find_extreme(sample(rng, [3.0, 3.0, *[0.0] * 8])) for _ in range(DRAWS)]
    assert sum(names(found) == {0, 1} for found in two) >= 0.95 * DRAWS


def test_the_set_holds_the_highest_however_the_spreads_differ() -> None:
    """The true highest is in the set in 95 of 100 draws: a few clusters, and tens of them."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(DRAWS):
        rows = []
        for name, (mean, spread, size) in enumerate(((1.0, 3.0, 12), (0.8, 0.5, 60), (0.0, 1.0, 30))):
            values = mean + spread * rng.normal(size=size)
            half = t.ppf(0.975, size - 1) * values.std(ddof=1) / size**0.5
            rows.append(row(values.mean(), half, name=name, df=size - 1.0, effective_clusters=float(size)))
        held += 0 in names(find_extreme(rows))
    assert held >= 0.95 * DRAWS - 3 * (DRAWS * 0.05 * 0.95) ** 0.5


def test_shares_of_one_whole_ask_for_more() -> None:
    """Of two shares that add up to one, the distance varies twice as much as the shares."""
    rng = np.random.default_rng(3)
    single = 0
    for _ in range(DRAWS):
        share = 0.5 + 0.1 * rng.normal(size=CLUSTERS)
        half = t.ppf(0.975, CLUSTERS - 1) * share.std(ddof=1) / CLUSTERS**0.5
        found = find_extreme([row(share.mean(), half), row(1 - share.mean(), half)], are_shares=True)
        single += found is not None and found.is_single
    assert single <= DRAWS * 0.05 + 3 * (DRAWS * 0.05 * 0.95) ** 0.5


def test_what_allows_no_verdict_is_not_compared() -> None:
    few = row(9.0, effective_clusters=3.0)
    assert find_extreme([row(1.0), few]) is None
    assert find_extreme([row(1.0), row(5.0, half=0.0)]) is None
    found = find_extreme([row(1.0), row(2.0), few])
    assert found is not None
    assert (names(found), found.n_compared, found.n_without_verdict) == ({2.0}, 2, 1)


def test_words_say_one_a_set_or_nothing() -> None:
    def say(*rows: dict[str, Any]) -> str:
        found = find_extreme(rows)
        assert found is not None
        return describe_extreme(found, lambda held: str(held["name"]), with_interval, verb="wins", end="top")

    assert say(row(1.0), row(2.0)) == "2.0 (2.00 [1.90, 2.10]) wins"
    assert say(row(1.0), row(3.0), row(3.05)) == (
        "3.05 (3.05 [2.95, 3.15]) and 3.0 (3.00 [2.90, 3.10]) cannot be told apart at the top"
    )
    assert say(row(1.0), row(1.05)) == "which wins is unclear (a lead of 0.20 would have been found)"
    assert said_of([row(1.0), row(1.01)]) == (
        "Which of the 2 values wins, and which loses, is unclear (a lead of 0.22 would have been found)"
    )
    assert said_of([row(1.0)]) == ""


def test_layers_are_said_as_ranges() -> None:
    assert list_layers(range(5, 13)) == "layers 5 to 12"


def test_sides_of_a_threshold_hold_together() -> None:
    above, below, neither = split_by_threshold([row(0.8), row(0.2), row(0.5), row(0.61)], 0.5)
    assert [held["value"] for held in above] == [0.8]
    assert [held["value"] for held in below] == [0.2]
    # Alone 0.61 [0.51, 0.71] is above a half; of four looked at it is not.
    assert [held["value"] for held in neither] == [0.5, 0.61]
    assert split_by_threshold([row(0.61)], 0.5)[0]


def test_the_highest_of_several_has_a_wider_interval() -> None:
    wide = widen(row(1.0), 10)
    assert wide["ci_low"] < 0.87 and wide["ci_high"] > 1.13
    assert widen(row(1.0), 1) == row(1.0)


@pytest.mark.parametrize("size", [1e-3, 1e-4, 1e-6, 1e-9])
def test_no_interval_is_printed_without_width(size: float) -> None:
    small = {"value": size, "ci_low": 0.4 * size, "ci_high": 1.6 * size}
    for text in (
        interval(small),
        format_estimate(small),
        with_interval(small),
    ):
        low, high = text.partition("[")[2].rstrip("]").split(", ")
        assert low != high
        assert float(low.replace("\u2212", "-")) <= small["ci_low"] + 1e-6
        assert float(high) >= small["ci_high"] - 1e-4
    flat = {"value": 0.0, "ci_low": 0.0, "ci_high": 0.0}
    assert with_interval(flat) == "0.00 (no variation)"
    assert "[" not in interval(flat) + format_estimate(flat)
