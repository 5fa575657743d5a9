"""``sonde run --plan`` and ``--budget``, on a clock that is given, and once on this machine."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sonde
from sonde.api import cost
from sonde.cli import main
from sonde.experiments import observe, run

Called = Callable[..., tuple[str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Call sonde: what it printed, and standard error."""

    def called(*arguments: object, code: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["sonde", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        assert int(stopped.value.code or 0) == code, captured.err
        return captured.out, captured.err

    return called


@pytest.fixture
def arguments(decoder: Path, project: Path) -> tuple[object, ...]:
    return ("run", "-m", decoder, "-l", "surprisal", "-c", f"local:{project}")


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which each pool of jobs takes half a minute, and so does what comes before the first."""
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        return time.time() + 30 * looks

    monkeypatch.setattr(observe, "read_clock", now)
    monkeypatch.setattr(run, "read_clock", lambda: time.time() + 30 * looks)


def test_a_plan_without_a_trial_loads_no_model_and_writes_nothing(
    call: Called, arguments: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.experiments.observe.load_model", None)
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 150, "--plan", "--no-trial", "--json")
    plan = json.loads(out)
    assert (plan["inputs"], plan["jobs"], plan["jobs_there"], plan["trainings"]) == (150, 3, 0, 0)
    assert (plan["seconds"], plan["why_no_time"]) == ({}, "--no-trial leaves the trial out")
    (shown,) = plan["shows"]
    # 150 functions of 11 packages in turn: 13 or 14 of each.
    assert shown["effective_clusters"] == pytest.approx(11, abs=0.05)
    assert shown["design_effect"] == pytest.approx(1 + (150 / 11 - 1) * 0.05, abs=0.01)
    assert [one["difference"] / shown["detectable"] for one in shown["needed"]] == [0.5, 1, 2]
    assert shown["needed"][1]["items"] == pytest.approx(150, abs=1)
    assert not (tmp_path / "run").exists()


def test_tokens_are_those_of_the_tokenizer(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    out, _ = call(*arguments, "--limit", 70, "--plan", "--no-trial", "--json")
    planned = json.loads(out)["tokens"]
    call(*arguments, "--limit", 70, "-o", tmp_path / "run", "--no-report")
    rows = pl.scan_parquet(tmp_path / "run/observations/*/*/*.parquet").select(pl.len()).collect().item()
    assert planned == pytest.approx(rows, rel=0.02)


def test_a_plan_says_what_the_folder_holds_already(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    call(*arguments, "-o", tmp_path / "run", "--limit", 64, "--no-report")
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 128, "--plan", "--no-trial")
    assert "jobs      2, 1 of them already in" in out
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before


def test_a_plan_times_a_few_inputs_and_learns_the_spread_of_others(
    call: Called, arguments: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "time_job", lambda job: (job.item_ids[:10], 5.0))
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 66, "--plan")
    # 66 inputs at 2 a second, by their lengths.
    assert "time      3" in out and re.search("observe 3[0-6] s", out) and "until scores begin" in out
    assert re.search(": about 3[0-6] s at 2 inputs per second \\(estimated from 10 of them\\)", out)
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 66, "--plan", "--json")
    plan = json.loads(out)
    assert plan["seconds"]["observe"] == pytest.approx(33, abs=3)
    assert {"select", "label"} <= plan["seconds"].keys()
    shown = plan["shows"][0]
    assert (shown["lens"], shown["metric"]) == ("surprisal", "bits_per_byte")
    assert shown["deviation"] > 0
    assert 0 < shown["detectable"] < 2 * shown["deviation"]
    assert not (tmp_path / "run").exists()


def test_what_so_few_inputs_cannot_tell_is_said_in_standard_deviations(
    call: Called, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_TRIAL_ITEMS", 1)
    out, _ = call(*arguments, "--limit", 66, "--plan")
    assert " SD" in out and "which are still unknown" in out


def test_a_plan_scores_nothing_that_would_take_longer_than_it_may(
    call: Called, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 16 of 66 inputs at 2 s each are 32 s; a tenth of the run is 13 s.
    monkeypatch.setattr(observe, "time_job", lambda job: (job.item_ids[:10], 20.0))
    monkeypatch.setattr(cost, "_score_few", None)
    out, _ = call(*arguments, "--limit", 66, "--plan")
    assert "observe 2 min" in out and "which are still unknown" in out


def test_a_plan_of_a_probe_takes_the_largest_spread_of_an_accuracy(
    call: Called, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_score_few", None)
    monkeypatch.setattr(observe, "time_job", lambda job: (job.item_ids[:10], 1.0))
    code = f"local:{Path(sonde.__file__).parent / 'stats'}"
    probe = ("-l", "probe", "-t", "jbl", "-t", "same_scope", "-c", code, "--limit", 60, "--plan")
    out, _ = call(*arguments[:3], *probe)
    assert "Accuracies that were not tried are taken as 50 %" in out and " points" in out
    out, _ = call(*arguments[:3], *probe, "--json")
    shown = json.loads(out)["shows"][0]
    assert (shown["metric"], shown["value"], shown["share"], shown["deviation"]) == (
        "accuracy",
        None,
        True,
        0.5,
    )


@pytest.mark.usefixtures("slow_clock")
def test_a_budget_reads_items_in_their_order_says_how_many_and_records_it(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    command = (*arguments, "-o", tmp_path / "run", "--budget", "2m", "--no-report")
    out, err = call(*command)
    line = "--budget 2m: 128 of 330 inputs were read in time; the same command resumes there"
    assert line in err.splitlines()
    assert "128 items observed" in out
    summary = json.loads((tmp_path / "run/run.json").read_text())
    assert summary["budget"] == {"budget": "2m", "inputs": 128, "of": 330}
    (entry,) = summary["corpus"]
    assert (entry["items"], entry["left_out"]["beyond the budget"]) == (128, 202)
    # They are scored as a run on them alone.
    call(*arguments, "-o", tmp_path / "limited", "--limit", 128, "--no-report")
    found, expected = (pl.read_parquet(tmp_path / name / "scores.parquet") for name in ("run", "limited"))
    assert_frame_equal(found, expected)
    # What was read costs nothing, and so the same time reads as much again.
    out, _ = call(*command)
    assert "128 items observed, 128 taken from the store" in out
    assert json.loads((tmp_path / "run/run.json").read_text())["budget"]["inputs"] == 256
    first, longer = (pl.read_parquet(tmp_path / name / "items.parquet") for name in ("limited", "run"))
    assert longer["item_id"].to_list()[:128] == first["item_id"].to_list()


@pytest.mark.usefixtures("slow_clock")
def test_a_limit_is_not_exceeded_by_a_budget(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    _, err = call(*arguments, "-o", tmp_path / "run", "--limit", 40, "--budget", "2h", "--no-report")
    assert "--budget 2h: all 40 inputs were read in time" in err


def test_a_budget_that_is_over_at_once_reads_the_first_job(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    _, err = call(*arguments, "-o", tmp_path / "run", "--budget", "0.001s", "--no-report")
    assert "64 of 330 inputs were read in time" in err


@pytest.mark.slow
def test_models_and_controls_come_equally_far_in_any_number_of_processes(
    decoder: Path, encoder: Path, project: Path, tmp_path: Path
) -> None:
    common = {"models": [decoder, encoder], "corpora": f"local:{project}", "lens": "attention"}
    short = sonde.run(**common, budget="0.001s", output=tmp_path / "short", workers=2)
    assert short.summary["budget"]["inputs"] < short.summary["budget"]["of"]
    read = {
        short.observations("attention", model).select(pl.col("item_id").n_unique()).collect().item()
        for model in short.models
    }
    assert len(read) == 1
    whole = sonde.run(**common, output=tmp_path / "short")
    alone = sonde.run(**common, output=tmp_path / "alone")
    assert_frame_equal(whole.scores, alone.scores)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--budget", "soon"), "--budget 'soon' is not a duration; write it as 2h, 90m, 1h30m or 3600s"),
        (("--no-trial",), "--no-trial leaves the trial out of a plan; give --plan as well"),
        (("--plan", "--shard", "1/2"), "--plan covers the whole run; leave out --shard 1/2"),
        (("--plan", "--budget", "1h"), "--plan covers the whole run; leave out --budget 1h"),
        (("--budget", "1h", "--shard", "1/2"), "--shard 1/2 is one share of it"),
        (("--budget", "1h", "--lock", "some.lock"), "fixes it; leave one of them out"),
        (("--budget", "1h", "-l", "finetune"), "lens 'finetune' trains on all of them; give --limit"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    call: Called, arguments: tuple[object, ...], more: tuple[str, ...], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if "--lock" in more:
        monkeypatch.chdir(tmp_path)
        call("corpus", "lock", "-c", arguments[-1], "-o", "some.lock", "--limit", 9)
    _, err = call(*arguments, *more, code=2)
    (line,) = err.splitlines()
    assert said in line


def test_a_plan_of_a_model_behind_a_server_sends_nothing(
    call: Called, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    arguments = ("run", "-m", "openai:tiny", "-l", "surprisal", "-c", f"local:{project}", "--limit", 20)
    out, _ = call(*arguments, "--plan")
    assert "openai:tiny runs on a server, where a trial would cost tokens" in out
