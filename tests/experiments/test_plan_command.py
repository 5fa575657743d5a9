"""``sonde run --plan`` and ``--budget``, on machines whose speed is given, and once on this one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sonde
from sonde.api import cost
from sonde.api.cost import PAGE, START, RunCost, TrialRun
from sonde.api.outputs import OutputOptions
from sonde.base.errors import SondeError
from sonde.base.progress import NullProgress
from sonde.cli import main
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.workload import InputAmount, Workload, measure_amount

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


def _passed(_begun: float) -> float:
    return 2.5


class Machine:
    """Warm-ups of a given speed that are not carried out; the wanted ones are remembered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.item = 0.5
        self.limits: list[int] = []
        self.wanted: list[OutputOptions] = []
        monkeypatch.setattr(cost, "run_trial", self)
        # However busy this machine is, so much of a budget has passed when the sample is chosen.
        monkeypatch.setattr(cost, "_elapsed_seconds", _passed)

    def __call__(self, experiment: Experiment, execution: Execution, wanted: OutputOptions) -> TrialRun:
        limit = experiment.selection.limit or 0
        self.limits.append(limit)
        self.wanted.append(wanted)
        assert not (execution.chosen or execution.merges)
        seconds = {START: 1.0, "observe": self.item * limit, PAGE: 2.0}
        cost = RunCost(
            amount=InputAmount(limit, limit, 400 * limit),
            seconds=seconds,
            processor=seconds,
            forwards=limit,
        )
        return TrialRun(cost=cost, answers=[], clusterings={})


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield Machine(monkeypatch)


@pytest.fixture
def arguments(decoder: Path, project: Path) -> tuple[object, ...]:
    return ("run", "-m", decoder, "-l", "surprisal", "-c", f"local:{project}")


def test_a_plan_without_a_warm_up_loads_no_model_and_writes_nothing(
    call: Called,
    machine: Machine,
    arguments: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sonde.experiments.observe.load_model", None)
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 150, "--plan", "--no-trial", "--json")
    plan = json.loads(out)
    assert (plan["limit"], plan["unit"], plan["inputs"]) == (150, "functions", 150)
    assert plan["jobs"] == 3
    assert (plan["jobs_there"], plan["trainings"], plan["cost"], plan["warm_ups"]) == (0, 0, None, [])
    assert plan["why_no_cost"] == "no warm-up was wanted (--no-trial)"
    (shown,) = plan["shows"]
    # 150 functions of 11 packages in turn: 13 or 14 of each.
    assert shown["effective_clusters"] == pytest.approx(11, abs=0.05)
    assert shown["design_effect"] == pytest.approx(1 + (150 / 11 - 1) * 0.05, abs=0.01)
    assert [one["difference"] / shown["detectable"] for one in shown["needed"]] == [0.5, 1, 2]
    assert shown["needed"][1]["items"] == pytest.approx(150, abs=1)
    assert not machine.limits
    assert not (tmp_path / "run").exists()


def test_tokens_are_those_of_the_tokenizer(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    out, _ = call(*arguments, "--limit", 70, "--plan", "--no-trial", "--json")
    planned = json.loads(out)["tokens"]
    call(*arguments, "--limit", 70, "-o", tmp_path / "run", "--no-report")
    rows = pl.scan_parquet(tmp_path / "run/observations/*/*/*.parquet").select(pl.len()).collect().item()
    assert planned == pytest.approx(rows, rel=0.02)


def test_what_a_lens_reads_of_a_sample_is_known_for_every_size(
    encoder: Path, project: Path, tmp_path: Path
) -> None:
    """A masked model reads the first items alone; the plan of a part says what a run of that part reads."""

    def outlook(limit: int) -> Workload:
        experiment = Experiment(
            models=(str(encoder),), lenses=("surprisal",), corpora=(f"local:{project}",),
            selection=Selection(limit=limit), options={"surprisal": {"masked_items": 20}},
        )  # fmt: skip
        folder = tmp_path / str(limit)
        return Workload.build(experiment, Execution(output=folder), NullProgress())

    whole = outlook(150)
    assert whole.amount(150).inputs == 20
    for limit in (8, 60):
        fewer = outlook(limit)
        assert whole.amount(limit) == fewer.amount(limit)
        assert whole.amount(limit).inputs == min(limit, 20)
        assert measure_amount(limit, fewer.readings) == fewer.amount(limit)


def test_a_plan_foretells_the_run_from_warm_ups(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    out, err = call(*arguments, "-o", tmp_path / "run", "--limit", 200, "--plan", "--json")
    plan = json.loads(out)
    # The first took 8 s for its items, and the second may take 20 s for its own.
    assert machine.limits == [16, 40]
    # Texts are counted: functions of this project differ in length.
    assert plan["cost"]["by_stage"]["observe"] == pytest.approx(0.5 * plan["characters"] / 400, rel=0.01)
    assert plan["cost"]["forwards"] == 200
    assert [one["limit"] for one in plan["warm_ups"]] == [16, 40]
    assert "warm-up with 16 functions: 11 s" in err
    assert not (tmp_path / "run").exists()


def test_a_plan_says_what_the_folder_holds_already(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    call(*arguments, "-o", tmp_path / "run", "--limit", 64, "--no-report")
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 128, "--plan")
    assert "jobs      2, 1 of them in" in out
    assert "This is from runs with 16 and 40 functions, which loaded the models" in out
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before


def test_what_is_written_beside_scores_is_part_of_the_cost(
    call: Called, machine: Machine, arguments: tuple[object, ...]
) -> None:
    call(*arguments, "--limit", 64, "--plan", "--no-report", "--figures")
    assert machine.wanted[0] == OutputOptions(page=False, figures=True)


def test_a_budget_takes_the_largest_sample_that_fits_says_so_and_records_it(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    _, err = call(*arguments, "-o", tmp_path / "run", "--budget", "90s", "--no-report")
    summary = json.loads((tmp_path / "run/run.json").read_text())
    chosen = summary["budget"]
    assert 60 < chosen["limit"] < 330
    assert chosen["of"] == 330
    assert chosen["expected_seconds"] <= 90 - chosen["warm_up_seconds"]
    assert summary["arguments"]["selection"]["limit"] == chosen["limit"] == summary["corpus"][0]["items"]
    (said,) = [line for line in err.splitlines() if line.startswith("--budget 90s:")]
    assert said.startswith(
        f"--budget 90s: {chosen['limit']} of 330 functions, expected to take "
        f"{chosen['expected_seconds']:.0f} s after a warm-up of 2.5 s"
    )


def test_a_repeated_command_goes_on_with_the_same_sample_whatever_the_machine_does_now(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    command = (*arguments, "-o", tmp_path / "run", "--budget", "90s", "--no-report")
    call(*command)
    first = json.loads((tmp_path / "run/run.json").read_text())
    # As a run that was killed leaves it: the choice is there, the summary is not.
    (tmp_path / "run/run.json").unlink()
    machine.item, machine.limits[:] = 5.0, []
    out, err = call(*command)
    again = json.loads((tmp_path / "run/run.json").read_text())
    assert not machine.limits
    assert again["budget"] == first["budget"]
    assert "0 items observed" in out
    assert f"--budget 90s: {first['budget']['limit']} of 330 functions, as before" in err
    # Another time has another sample, which begins with the same items.
    call(*arguments, "-o", tmp_path / "run", "--budget", "150s", "--no-report")
    assert machine.limits
    assert json.loads((tmp_path / "run/run.json").read_text())["budget"]["limit"] < first["budget"]["limit"]


def test_the_items_of_a_shorter_budget_are_the_first_of_a_longer_one(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    for budget in ("60s", "100s"):
        call(*arguments, "-o", tmp_path / budget, "--budget", budget, "--no-report")
    short, long = (
        pl.read_parquet(tmp_path / one / "items.parquet")["item_id"].to_list() for one in ("60s", "100s")
    )
    assert long[: len(short)] == short
    assert len(long) > len(short)


def test_a_limit_is_not_exceeded_by_a_budget(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    _, err = call(*arguments, "-o", tmp_path / "run", "--limit", 40, "--budget", "2h", "--no-report")
    assert "--budget 2h: all 40 functions" in err
    assert json.loads((tmp_path / "run/run.json").read_text())["budget"]["limit"] == 40


def test_a_budget_that_nothing_fits_is_refused_in_one_line_and_leaves_no_run(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    machine.item = 60.0
    _, err = call(*arguments, "-o", tmp_path / "run", "--budget", "2m", code=2)
    line = err.splitlines()[-1]
    assert line.startswith(
        "sonde: --budget 2m: no sample fits; the smallest, 16 functions, takes 16 min here"
    )
    assert "or more, or --limit 16" in line
    assert machine.limits == [16]
    assert not (tmp_path / "run/run.json").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--budget", "soon"), "--budget 'soon' is no time; write it as 2h, 90m, 1h30m or 3600s"),
        (("--no-trial",), "--no-trial leaves the warm-up out of a plan; give --plan as well"),
        (("--plan", "--shard", "1/2"), "--plan is that of the whole run; leave out --shard 1/2"),
        (("--plan", "--no-trial", "--budget", "1h"), "--budget 1h needs to know how fast the run is"),
        (("--budget", "1h", "--shard", "1/2"), "--shard 1/2 is one share of it"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    call: Called, machine: Machine, arguments: tuple[object, ...], more: tuple[str, ...], said: str
) -> None:
    _, err = call(*arguments, *more, code=2)
    (line,) = err.splitlines()
    assert said in line
    assert not machine.limits


def test_a_plan_of_a_budget_is_that_of_its_sample(
    call: Called, machine: Machine, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    out, _ = call(*arguments, "-o", tmp_path / "run", "--budget", "90s", "--plan", "--json")
    plan = json.loads(out)
    assert plan["limit"] == plan["budget"]["limit"] == plan["inputs"] < 330
    assert not (tmp_path / "run").exists()


def test_from_python_a_budget_is_kept_as_well(
    machine: Machine, decoder: Path, project: Path, tmp_path: Path
) -> None:
    run = sonde.run(models=decoder, corpora=f"local:{project}", budget="1m", output=tmp_path / "run")
    assert machine.wanted[0] == OutputOptions(page=False)
    assert json.loads((run.directory / "run.json").read_text())["budget"]["limit"] < 330


def test_a_plan_of_a_model_behind_a_server_sends_nothing(
    call: Called, machine: Machine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    arguments = ("run", "-m", "openai:tiny", "-l", "surprisal", "-c", f"local:{project}", "--limit", 20)
    out, _ = call(*arguments, "--plan")
    assert "openai:tiny is behind a server, and a warm-up would cost tokens there" in out
    _, err = call(*arguments, "--budget", "1h", code=2)
    assert "would cost tokens there; give --limit instead" in err.splitlines()[-1]
    assert not machine.limits


@pytest.mark.slow
def test_this_machine_is_measured_with_everything_that_a_command_does(
    call: Called, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    """No fake: two runs in processes of their own, whose scores tell the spread as well."""
    out, _ = call(*arguments, "-o", tmp_path / "run", "--limit", 66, "--plan", "--json")
    plan = json.loads(out)
    cost: dict[str, Any] = plan["cost"]
    assert {"start", "observe", "report", "other"} <= cost["by_stage"].keys()
    assert [one["limit"] for one in plan["warm_ups"]] == [16, 66]
    assert cost["seconds"] > 1
    assert cost["processor_seconds"] > 1
    assert cost["forwards"] >= 66
    shown = plan["shows"][0]
    assert (shown["lens"], shown["metric"]) == ("surprisal", "bits_per_byte")
    assert shown["deviation"] > 0
    assert 0 < shown["detectable"] < 2 * shown["deviation"]


def test_a_warm_up_that_fails_is_one_line(
    call: Called, arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> TrialRun:
        raise SondeError("the warm-up with 16 items a task and language died (out of memory?)")

    monkeypatch.setattr(cost, "run_trial", fails)
    _, err = call(*arguments, "--plan", code=1)
    assert err.splitlines()[-1] == (
        "sonde: the warm-up with 16 items a task and language died (out of memory?)"
    )
