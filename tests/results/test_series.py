"""Checkpoints of one training: which they are, and when numbers cross their controls."""

from __future__ import annotations

import dataclasses

import polars as pl
import pytest

from sonde.base.errors import UsageError
from sonde.comparison.summary import build_series, compile_step_pattern, find_crossings
from sonde.lenses import LENSES
from sonde.results import Score
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import scores_to_frame

WANTED = {"probe": (ComparableMetric(metric="accuracy", direction="higher"),)}


def checkpoint(
    value: float, *, control: float = 0.5, half: float = 0.05, effective: float = 40.0
) -> pl.DataFrame:
    """A checkpoint with two layers, the second one better by a tenth, and a control."""
    row = Score(
        model="m",
        lens="probe",
        task="typ",
        metric="accuracy",
        split="test",
        value=value,
        ci_low=value - half,
        ci_high=value + half,
        n=200,
        n_clusters=50,
        effective_clusters=effective,
        n_eff=150.0,
    )
    rows = [
        dataclasses.replace(
            row,
            layer=layer,
            value=value + layer / 10,
            ci_low=value + layer / 10 - half,
            ci_high=value + layer / 10 + half,
        )
        for layer in (0, 1)
    ]
    # The chosen row says over how many folds it is; its control does not.
    best = dataclasses.replace(rows[1], dimensions=(("selection", "best"),), k=5)
    beside = dataclasses.replace(row, value=control, control="length", dimensions=(("selection", "best"),))
    return scores_to_frame([*rows, best, beside, dataclasses.replace(row, split="valid", layer=0)])


def test_a_step_is_the_group_of_the_expression() -> None:
    step = compile_step_pattern(r"step(\d+)")
    assert [step(name) for name in ("runs/step12", "step0", "final", "step")] == [12, 0, None, None]
    for wrong in ("step(", r"step\d+", r"(step)(\d+)"):
        with pytest.raises(UsageError, match="--series"):
            compile_step_pattern(wrong)


def test_numbers_cross_where_they_stay_above_with_their_interval() -> None:
    values = {0: 0.30, 1: 0.50, 2: 0.35, 4: 0.47, 8: 0.50}
    series = build_series([(step, checkpoint(value)) for step, value in values.items()], WANTED)
    assert series.height == 15
    chosen = series.filter(pl.col("k") == 5)
    assert chosen["control_value"].to_list() == [0.5] * 5
    # Beyond 0.5 with an interval of 0.05 at step 1, below it again at step 2.
    assert chosen["above"].to_list() == [False, True, False, True, True]
    (row,) = find_crossings(series).to_dicts()
    assert (row["crossed"], row["first"], row["last"]) == (4, pytest.approx(0.4), pytest.approx(0.6))
    assert series.filter(pl.col("k").is_null())["above"].is_null().all()


def test_what_allows_no_verdict_is_never_above_and_what_ends_below_has_not_crossed() -> None:
    few = build_series([(step, checkpoint(0.9, effective=4.0)) for step in (0, 1, 2)], WANTED)
    assert find_crossings(few)["crossed"].to_list() == [None]
    fell = build_series([(0, checkpoint(0.6)), (1, checkpoint(0.6)), (2, checkpoint(0.1))], WANTED)
    assert find_crossings(fell)["crossed"].to_list() == [None]


def test_only_rows_of_the_method_that_is_asked_for_are_of_a_series() -> None:
    frame = checkpoint(0.8).with_columns(method=pl.lit("erase"))
    other = frame.with_columns(method=pl.lit("logit_lens"), value=pl.lit(9.0))
    wanted = {"probe": (ComparableMetric(metric="accuracy", method="erase"),)}
    found = build_series([(1, pl.concat([frame, other]))], wanted)
    assert found.height and set(found["method"]) == {"erase"}


def test_of_interventions_the_costs_of_erasures_and_ablations_are_of_a_series() -> None:
    assert {(one.metric, one.method, one.direction) for one in LENSES.load("causal").comparable_metrics} == {
        ("bits", "erase", ""),
        ("bits", "ablate", ""),
    }
