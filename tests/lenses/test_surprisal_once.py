"""A number that stands under several names, such as a tag and the role that it has, is compared once."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from tests.lenses.test_surprisal_tables import random_observations, slices_of
from tests.slices import slice_of

from sonde.comparison.differences import compute_differences, differences_to_frame
from sonde.comparison.summary import add_text_columns
from sonde.lenses import LENSES, ScoringContext
from sonde.results.score_pairs import Direction, merge_identical_pairs, pair_scores
from sonde.results.scores import Score

LENS = LENSES.load("surprisal")
PAIRS = [("role", "tag"), ("tag", "role"), ("construct", "kind"), ("role", "construct"), ("user_tag", "role")]


def observations(first: str, second: str) -> pl.DataFrame:
    """Random observations in which a value of one column always goes with one of another."""
    rows = random_observations(7, items=60)
    marked = (pl.arange(pl.len()) % 5 == 2) & (pl.col("position") > 0) & (pl.col("token") >= 0)
    plain = {"tag": "p -> q", "kind": "keyword"}
    return rows.with_columns(
        pl.when(marked).then(pl.lit("marked")).otherwise(pl.lit(plain.get(first, ""))).alias(first),
        pl.when(marked).then(pl.lit("a -> mark")).otherwise(pl.lit(plain.get(second, ""))).alias(second),
    )


def scored(study: Any, rows: pl.DataFrame, seed: int, model: str) -> list[Score]:
    rng = np.random.default_rng(seed)
    rows = rows.with_columns(nats=pl.Series(rng.exponential(2.0, rows.height), dtype=pl.Float32))
    scoring = ScoringContext(
        observations=rows.lazy(),
        items=pl.DataFrame(),
        template=Score(model=model, lens="surprisal", metric="", value=0.0, n=0, n_clusters=0),
        settings=study(options={"min_count": 1}).settings,
    )
    return LENS.score(scoring)


def pairs_of(study: Any, rows: pl.DataFrame) -> list[tuple[Score, Score, Direction]]:
    first, second = (scored(study, rows, seed, model) for seed, model in ((1, "a"), (2, "b")))
    return pair_scores(first, second, LENS.comparable_metrics, same_tokens=True).pairs


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_one_number_is_one_row_and_one_place_in_the_family(study, first: str, second: str) -> None:
    rows = observations(first, second)
    pairs = pairs_of(study, rows)
    found = compute_differences(pairs)
    # Which rows each name is over, without a look at any number.
    over: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows.to_dicts()):
        for name in slices_of(row):
            over[name].append(place)
    names = {slice_of(score.dimensions) for _, score, _ in pairs if score.task == ""}
    distinct = {tuple(over[name]) for name in names if name in over}
    told = [one for one in found if slice_of(one.score.dimensions) in over]
    assert len(told) == len(distinct) < len(names)
    for one in told:
        same = {name for name in names if over.get(name) == over[slice_of(one.score.dimensions)]}
        also = {slice_of(held) for held in one.other_names}
        assert also == same - {slice_of(one.score.dimensions)}
    (row,) = [
        one for one in told if slice_of(one.score.dimensions) in (f"{first}=marked", f"{second}=a -> mark")
    ]
    assert row.score.dimensions == min(((first, "marked"),), ((second, "a -> mark"),))
    # The family of tests has each number once.
    tested = [one for one in found if not one.why and math.isfinite(one.p_value)]
    assert [one.p_adjusted for one in tested] == pytest.approx(
        stats.false_discovery_control([one.p_value for one in tested]).tolist()
    )


def test_the_choice_of_the_name_does_not_depend_on_the_order(study) -> None:
    pairs = pairs_of(study, observations("role", "tag"))
    forth, back = merge_identical_pairs(pairs), merge_identical_pairs(pairs[::-1])
    assert {pair[1].dimensions: others for pair, others in forth} == {
        pair[1].dimensions: others for pair, others in back
    }
    assert len(forth) < len(pairs)


def test_the_table_says_the_other_names(study) -> None:
    frame = differences_to_frame(compute_differences(pairs_of(study, observations("role", "tag"))))
    (row,) = add_text_columns(frame).filter(pl.col("about").str.starts_with("role marked")).to_dicts()
    assert row["other_names"] == ["tag a -> mark"]
    assert "the same as tag a -> mark" in row["about"]
    assert not add_text_columns(frame)["about"].str.starts_with("tag a -> mark").any()


def test_counts_that_are_equal_by_chance_stay_apart(study) -> None:
    # Both are right everywhere: other examples have the same sums.
    pairs = pairs_of(study, observations("role", "tag"))
    (base, score, better), *_ = [pair for pair in pairs if slice_of(pair[1].dimensions) == "role=marked"]

    def counted(one: Score) -> Score:
        held = one.contributions
        assert held is not None
        whole = dataclasses.replace(held, sums=held.weight.copy())
        return dataclasses.replace(one, value=1.0, contributions=whole)

    twice = [(counted(base), counted(score), better) for _ in range(2)]
    assert [others for _, others in merge_identical_pairs(twice)] == [(), ()]
    assert len(compute_differences(twice)) == 2


def test_numbers_that_differ_on_one_side_stay_apart(study) -> None:
    pairs = pairs_of(study, observations("role", "tag"))
    base, score, better = next(pair for pair in pairs if slice_of(pair[1].dimensions) == "role=marked")
    assert score.contributions is not None and score.contributions.sums is not None
    nudged = dataclasses.replace(score.contributions, sums=np.nextafter(score.contributions.sums, 0.0))
    other = dataclasses.replace(score, contributions=nudged)
    assert len(merge_identical_pairs([(base, score, better), (base, other, better)])) == 2
    assert len(merge_identical_pairs([(base, score, better), (base, score, better)])) == 1
