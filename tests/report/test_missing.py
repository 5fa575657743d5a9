"""What was not scored is a part of the page of its own, with what would help."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from sonde.report import RunData, write_report
from sonde.report.header import list_missing_results
from sonde.report.text import group_by_reason
from sonde.results.scores import LEFT_OUT, Score, scores_to_frame

NUMBER = Score(
    model="m", lens="finetune", task="wrong_operator", metric="accuracy", value=0.5, ci_low=0.4, ci_high=0.6,
    n=200, n_clusters=20, effective_clusters=15.0, n_eff=150.0, seeds=5,
)  # fmt: skip


_LEFT = {"over the cap of its cluster": 12, "near-duplicate": 0}


def run_of(root: Path, *scores: Score) -> RunData:
    summary = {
        "models": [{"name": "m", "seen": 7, "seen_excluded": True}],
        "refused": [
            {"lens": "prompting", "model": "m", "reason": "it writes no text; use a decoder"},
            {"lens": "probe", "task": "typ", "language": "java", "model": "", "reason": "no faults"},
        ],
        "corpus": [{"name": "stdlib", "language": "python", "left_out": _LEFT}],
    }
    (root / "run.json").write_text(json.dumps(summary), encoding="utf-8")
    scores_to_frame(scores).write_parquet(root / "scores.parquet")
    return RunData(root)


def left_out(task: str, reason: str, control: str | None = None) -> Score:
    return Score(
        model="m", lens="finetune", task=task, metric=LEFT_OUT, value=1.0, n=0, n_clusters=0, control=control,
        dimensions=(("reason", reason),),
    )  # fmt: skip


def test_every_gap_says_what_why_and_what_helps(tmp_path: Path) -> None:
    few, one = dataclasses.replace(NUMBER, effective_clusters=3.0), dataclasses.replace(NUMBER, seeds=1)
    run = run_of(tmp_path, NUMBER, few, one, left_out("a", "no gensim here", "word2vec_cbow_ns"))
    told = {gap.what: (gap.why, gap.remedy) for gap in list_missing_results(run)}
    assert told["prompting of m"] == ("it writes no text", "Use a decoder.")
    assert told["typ in Java"] == ("no faults", "")
    assert told["finetune, word2vec cbow ns"] == ("no gensim here", "")
    assert told["12 of stdlib, Python"] == ("over the cap of its cluster", "Raise --per-cluster.")
    assert told["7 items with m"][0] == "in the model's training data"
    whys = [gap.why for gap in list_missing_results(run) if gap.what.startswith("1 of the ")]
    assert sorted(whys) == ["fewer than 10 effective clusters", "fewer than 5 seeds or draws"]
    page = write_report(tmp_path).read_text(encoding="utf-8")
    part = page.partition('id="missing"')[2].partition("</section>")[0]
    assert all(gap.why.replace("'", "&#39;") in part for gap in list_missing_results(run))


def test_reasons_that_tasks_share_are_said_once() -> None:
    told = [(None, "task 'len' in java: few"), (None, "task 'csc' in java: few"), (None, "task 'len': none")]
    assert group_by_reason(told) == {"": ["tasks 'len', 'csc' in java: few", "task 'len': none"]}


def test_a_run_without_gaps_has_no_such_part(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"models": [{"name": "m"}]}), encoding="utf-8")
    scores_to_frame([NUMBER]).write_parquet(tmp_path / "scores.parquet")
    assert list_missing_results(RunData(tmp_path)) == []
    assert 'id="missing"' not in write_report(tmp_path).read_text(encoding="utf-8")
