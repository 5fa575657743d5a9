"""The first screen: one row per lens, its control, and what may be concluded by one rule."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sonde.report import LensAnswer, RunData, answer_by_lens, write_report
from sonde.report.run_summary import describe_run
from sonde.results.headlines import ABOVE, BELOW, decide_verdict
from sonde.results.scores import Score, scores_to_frame

HEADS = Score(
    model="org/m", lens="attention", task="syntax_relations", language="python", split="test",
    metric="first_hit", k=1, value=0.19, ci_low=0.15, ci_high=0.24, n=900, n_clusters=40,
    effective_clusters=30.0, n_eff=400.0,
)  # fmt: skip
RULE = dataclasses.replace(HEADS, control="offset", value=0.48, ci_low=0.42, ci_high=0.54)
WORSE_RULE = dataclasses.replace(HEADS, control="keyword", value=0.12, ci_low=0.08, ci_high=0.18)
OTHER_HEAD = dataclasses.replace(HEADS, control="one_head", value=0.9, ci_low=0.8, ci_high=0.95)
BEHIND = dataclasses.replace(
    HEADS, metric="first_hit_gain", compared_to="offset", value=-0.29, ci_low=-0.35, ci_high=-0.22, n_eff=None
)


def run_of(root: Path, scores: Sequence[Score]) -> RunData:
    models = [{"name": name} for name in dict.fromkeys(score.model for score in scores)]
    (root / "run.json").write_text(json.dumps({"models": models}), encoding="utf-8")
    scores_to_frame(scores).write_parquet(root / "scores.parquet")
    return RunData(root)


def answer(root: Path, *scores: Score) -> LensAnswer:
    (found,) = answer_by_lens(run_of(root, scores))
    return found


def test_a_lens_is_held_against_its_best_control_by_the_paired_difference(tmp_path: Path) -> None:
    found = answer(tmp_path, HEADS, RULE, WORSE_RULE, OTHER_HEAD, BEHIND)
    assert found.verdict == (
        "Attention heads lose to a fixed-distance rule: 19 % compared with 48 % of relations found at the "
        "first try"
    )
    assert (found.kind, found.difference) == ("below", "−29.0 [−35.0, −22.0] points")
    assert (found.unit.value(found.row), found.unit.bounds(found.row)) == ("19.0 %", "[15.0, 24.0]")
    assert found.control is not None and found.unit.value(found.control) == "48.0 %"
    assert found.line().endswith("points (n = 900 edges, 30 effective clusters)")


@pytest.mark.parametrize(
    ("low", "high", "clusters", "kind"),
    [(0.01, 0.2, 30.0, "above"), (-0.1, 0.1, 30.0, "level"), (0.01, 0.2, 9.0, "open")],
)
def test_the_interval_of_the_difference_and_the_one_rule_decide(
    low: float, high: float, clusters: float, kind: str, tmp_path: Path
) -> None:
    gain = dataclasses.replace(BEHIND, value=0.05, ci_low=low, ci_high=high, effective_clusters=clusters)
    found = answer(tmp_path, HEADS, RULE, gain)
    assert found.kind == kind
    assert ("9 effective clusters, a verdict needs 10" in found.verdict) == (kind == "open")


def test_without_a_paired_difference_intervals_have_to_lie_apart(tmp_path: Path) -> None:
    assert answer(tmp_path, HEADS, RULE).kind == "below"
    near = dataclasses.replace(RULE, value=0.22, ci_low=0.18, ci_high=0.27)
    assert answer(tmp_path, HEADS, near).kind == "level"


def test_of_equal_controls_the_paired_one_counts_and_other_poolings_do_not(tmp_path: Path) -> None:
    heads, rule, behind = (dataclasses.replace(one, pooling="mean") for one in (HEADS, RULE, BEHIND))
    equal = dataclasses.replace(rule, control="combined")
    other = dataclasses.replace(rule, control="keyword", pooling="last", value=0.9, ci_low=0.8, ci_high=0.95)
    found = answer(tmp_path, heads, equal, rule, other, behind)
    assert found.control is not None and found.control["control"] == "offset"
    assert found.gain is not None and found.kind == "below"


def test_a_number_without_a_control_is_no_verdict_and_says_so(tmp_path: Path) -> None:
    bits = Score(
        model="m", lens="surprisal", language="java", metric="bits_per_byte", value=1.25, ci_low=1.1,
        ci_high=1.4, n=5000, n_clusters=40, effective_clusters=30.0,
    )  # fmt: skip
    found = answer(tmp_path, bits)
    assert (found.kind, found.verdict) == (
        "alone",
        "Surprisal: 1.25 [1.10, 1.40] bits per byte; there is no control to compare with",
    )
    assert (found.unit.value(found.row), found.language) == ("1.25", "Java")


@pytest.mark.parametrize(
    ("objective", "subject"), [("pll", "Pseudo-log-likelihood"), ("infill", "What is filled in")]
)
def test_what_both_sides_are_known_of_is_not_called_surprisal(
    objective: str, subject: str, tmp_path: Path
) -> None:
    bits = Score(
        model="m", lens="surprisal", language="java", metric="bits_per_byte", value=0.74, ci_low=0.7,
        ci_high=0.8, n=5000, n_clusters=40, effective_clusters=30.0, objective=objective,
    )  # fmt: skip
    assert answer(tmp_path, bits).verdict.startswith(f"{subject}: 0.74 [0.70, 0.80] bits per byte")


def test_of_several_tasks_the_middle_one_stands_in_the_row_and_all_are_counted(tmp_path: Path) -> None:
    scores: list[Score] = []
    for task, value, low, high in (
        ("cpx", 0.2, 0.1, 0.3),
        ("len", -0.3, -0.4, -0.2),
        ("npt", 0.0, -0.1, 0.1),
    ):
        best = (("selection", "best"),)
        own = dataclasses.replace(
            HEADS, lens="probe", task=task, metric="accuracy", k=5, dimensions=best, method="linear"
        )
        scores += [
            own,
            dataclasses.replace(own, control="length", method=None, value=own.value - value),
            dataclasses.replace(
                own, metric="gain", control="length", value=value, ci_low=low, ci_high=high, n_eff=None
            ),
        ]
    found = answer(tmp_path, *scores)
    assert found.row["task"] == "npt" and found.kind == "level"
    assert found.verdict.startswith(
        "Cyclomatic complexity (CPX) can be read from the states (19 % of examples right; best control, "
        "the length of the code, −1 %); worse than the best control for LEN; no difference found for NPT "
        "(14.2 points or more would have been found). Middle task, NPT: no difference found between probes "
        "and the length of the code (14.2 points or more would have been found): 19.0 % compared with "
        "19.0 % of examples right"
    )


def test_a_lens_that_declares_nothing_is_answered_by_its_scores(tmp_path: Path) -> None:
    mine = dataclasses.replace(HEADS, lens="mine", metric="depth", split="all", n_eff=None)
    found = answer(
        tmp_path, mine, dataclasses.replace(mine, control="chance", value=0.1, ci_high=0.12, ci_low=0.08)
    )
    assert (found.kind, found.verdict) == (
        "above",
        "Depth (k = 1): above chance: 0.190 [0.150, 0.240] compared with 0.100 [0.080, 0.120]",
    )
    assert answer(tmp_path, dataclasses.replace(mine, effective_clusters=3.0)).kind == "open"


def test_the_page_says_what_the_terminal_says_for_every_model(tmp_path: Path) -> None:
    both = [HEADS, RULE, dataclasses.replace(HEADS, model="b"), dataclasses.replace(RULE, model="b")]
    run = run_of(tmp_path, both)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    found = answer_by_lens(run)
    assert [one.model for one in found] == ["m", "b"]
    rows = page.partition('class="found"')[2].partition("</table>")[0]
    assert rows.count("<tr>") == 1 + len(found)
    assert all(rows.count(one.verdict) == len(found) for one in found)
    assert "<h1>What m and b know of Python</h1>" in page


@pytest.mark.parametrize("lower", [False, True])
def test_the_best_of_four_controls_beats_an_equal_model_in_few_draws(lower: bool) -> None:
    """The control to beat is chosen by its value, so that four equal ones would beat the model often."""
    rng = np.random.default_rng(5)
    sign = -1 if lower else 1
    worse = better = naive = 0
    for _ in range(2000):
        gains = sign * rng.normal(size=4)
        chosen = min(gains, key=lambda gain: sign * gain)
        gain = {
            "value": chosen, "ci_low": chosen - 2.045, "ci_high": chosen + 2.045, "df": 29.0,
            "effective_clusters": 30.0, "n_eff": None, "seeds": None, "metric": "nats", "ci_method": None,
        }  # fmt: skip
        kind, _ = decide_verdict({}, {}, gain, lower=lower, n_controls=4)
        worse += kind == BELOW
        better += kind == ABOVE
        naive += decide_verdict({}, {}, gain, lower=lower)[0] == BELOW
    assert naive > 0.05 * 2000
    assert worse <= 0.035 * 2000
    assert better <= 0.025 * 2000


def test_the_size_is_that_of_the_verdict_and_never_rounds_to_what_a_verdict_needs(tmp_path: Path) -> None:
    gain = dataclasses.replace(BEHIND, effective_clusters=9.97)
    found = answer(tmp_path, HEADS, RULE, gain)
    assert "9.97 effective clusters, a verdict needs 10" in found.verdict
    assert found.line().endswith("(n = 900 edges, 9.97 effective clusters)") and found.clusters == "9.97"


@pytest.mark.parametrize("clusters", [4.0, 30.0])
def test_all_lines_about_a_lens_without_a_headline_have_one_verdict(clusters: float, tmp_path: Path) -> None:
    """A verdict needs enough clusters of the control too, in the line of the lens and in the one below it."""
    number = dataclasses.replace(HEADS, lens="mine", task="", metric="hits", k=None)
    control = dataclasses.replace(number, control="chance", value=0.05, ci_low=0.03, ci_high=0.08)
    control = dataclasses.replace(control, effective_clusters=clusters)
    first, *rest = filter(None, describe_run(run_of(tmp_path, [number, control])))
    is_open = clusters < 10
    assert ("too little data" in first.lower()) == is_open
    assert (
        any(line.endswith("; control chance 0.0500 [0.0300, 0.0800]; too little data †") for line in rest)
        == is_open
    )
    assert ("Too little data for a verdict: † fewer than 10 effective clusters." in rest) == is_open
    assert any("a verdict is allowed" in line for line in rest) != is_open
    assert "(n = 900 observations, 30 effective clusters)" in first
