"""What a run will cost: the arithmetic, on machines whose speed is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import pytest

from sonde.api import cost
from sonde.api.cost import (
    FILE,
    FIRST_DATASET_LIMIT,
    FIRST_LIMIT,
    PAGE,
    REMAINDER,
    START,
    BudgetedSample,
    RunCost,
    TrialRun,
    check_sampling_possible,
    choose_sample,
    extrapolate_cost,
    load_sample,
    save_sample,
    with_limit,
)
from sonde.api.outputs import OutputOptions
from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.progress import NullProgress
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.progress import AGAIN
from sonde.experiments.workload import InputAmount, Workload

LENGTH = 600
"""Characters of each text."""


def amount(limit: int) -> InputAmount:
    return InputAmount(limit, limit, LENGTH * limit)


def machine(item: float = 0.05, stretch: float = 1.0, load: float = 3.0) -> Callable[[int], RunCost]:
    """A run of known speed; ``stretch``: seconds that pass while a processor works one."""

    def measure(limit: int) -> RunCost:
        processor = {
            START: 2.0,
            "select": 4.0,
            "observe": load + item * limit,
            "score": 0.5 + 0.01 * limit,
            PAGE: 3.0,
            REMAINDER: 1.0,
        }
        return RunCost(
            amount=amount(limit),
            seconds={stage: stretch * seconds for stage, seconds in processor.items()},
            processor=processor,
            forwards=4 * limit,
        )

    return measure


def costs(measured: RunCost) -> Mapping[str, float]:
    return {**measured.seconds, "forwards": measured.forwards}


def test_a_run_that_grows_evenly_is_foretold_exactly() -> None:
    measure = machine()
    found = extrapolate_cost([measure(16), measure(128)], amount(10_000))
    assert costs(found) == pytest.approx(costs(measure(10_000)))
    assert found.total == pytest.approx(13.5 + 0.06 * 10_000)
    assert found.amount == amount(10_000)


def test_what_reads_texts_grows_with_their_characters() -> None:
    measure = machine()
    long = InputAmount(1_000, 1_000, 10 * LENGTH * 1_000)
    found, even = (extrapolate_cost([measure(16), measure(128)], one) for one in (long, amount(1_000)))
    assert found.seconds["observe"] == pytest.approx(3.0 + 10 * 0.05 * 1_000)
    assert found.seconds["score"] == even.seconds["score"]


def test_a_later_stage_grows_no_further_than_what_it_reads() -> None:
    def measure(limit: int) -> RunCost:
        again = min(limit, 400)
        amount = InputAmount(limit, limit, LENGTH * limit, again)
        seconds = {"observe": 0.05 * limit, AGAIN: 0.03 * again}
        return RunCost(amount=amount, seconds=seconds, processor=seconds, forwards=limit + again)

    found = extrapolate_cost([measure(16), measure(128)], measure(10_000).amount)
    assert found.seconds == pytest.approx({"observe": 500.0, AGAIN: 12.0})
    assert found.forwards == 10_400


def test_one_warm_up_of_the_whole_run_is_its_cost() -> None:
    assert extrapolate_cost([machine()(40)], amount(40)).total == pytest.approx(machine()(40).total)


def test_noise_of_what_is_the_same_for_any_sample_does_not_grow_with_it() -> None:
    small, large = machine()(16), machine()(32)
    slow = dataclasses.replace(
        large, processor={**large.processor, START: 2.4}, seconds={**large.seconds, START: 2.4}
    )
    assert extrapolate_cost([small, slow], amount(10_000)).seconds[START] == pytest.approx(2.2)


def test_a_run_is_never_expected_to_take_less_for_more() -> None:
    faster = dataclasses.replace(machine()(16), amount=amount(64))
    found = extrapolate_cost([machine()(32), faster], amount(10_000))
    assert found.total == pytest.approx(faster.total, rel=0.15)


def test_other_work_on_the_machine_stretches_every_stage() -> None:
    measure = machine(stretch=2.5)
    found = extrapolate_cost([measure(16), measure(128)], amount(1_000))
    assert found.total == pytest.approx(2.5 * machine()(1_000).total)
    assert found.processor_seconds == pytest.approx(machine()(1_000).total)


def tried(
    measure: Callable[[int], RunCost],
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
    budget: str = "",
    drawn: bool = False,
) -> list[int]:
    """The limits of the warm-ups of a run."""
    limits: list[int] = []

    def trial(experiment: Experiment, _execution: Execution, _wanted: OutputOptions) -> TrialRun:
        limits.append(experiment.selection.limit or 0)
        return TrialRun(cost=measure(limits[-1]), answers=[], clusterings={})

    monkeypatch.setattr(cost, "run_trial", trial)
    monkeypatch.setattr(cost, "uses_datasets", lambda _lens: drawn)
    execution = Execution(output=Path("run"), budget=budget)
    cost._run_trials(sampled(wanted), EXPERIMENT, execution, OutputOptions(), NullProgress())
    return limits


def sampled(wanted: int) -> Workload:
    """A run as far as warm-ups and a budget look at it."""
    workload = mock.create_autospec(Workload, instance=True)
    workload.effective_limit, workload.unit, workload.amount = wanted, "functions", amount
    workload.readings = [mock.Mock()]
    return workload


def test_a_second_warm_up_reads_as_much_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4.5 s of the first may grow: 3 + 16 * 0.05 of observing, and 0.66 of scoring.
    assert tried(machine(), 10_000, monkeypatch) == [FIRST_LIMIT, 72]
    assert tried(machine(), 10_000, monkeypatch, budget="1h") == [FIRST_LIMIT, 256]
    assert tried(machine(), 60, monkeypatch) == [FIRST_LIMIT, 60]
    assert tried(machine(), 10, monkeypatch) == [10]
    assert tried(machine(), 10_000, monkeypatch, drawn=True) == [FIRST_DATASET_LIMIT, 256]


def test_a_slow_model_is_tried_on_few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(machine(item=12.0), 100_000, monkeypatch) == [16, 32]


def test_no_warm_up_begins_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(machine(), 1_000, monkeypatch, budget="10s") == [16]


def test_data_sets_that_are_too_small_are_tried_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(limit: int) -> RunCost:
        if limit < 100:
            raise InputError("a data set of 16 examples has no room")
        return machine()(limit)

    assert tried(measure, 300, monkeypatch) == [16, 64, 256, 300]
    with pytest.raises(InputError, match="has no room"):
        tried(measure, 90, monkeypatch)


def test_a_cost_as_data_has_no_digits_that_nobody_believes() -> None:
    found = extrapolate_cost([machine()(16)], amount(16)).data
    assert found["seconds"] == 14.5
    assert found["by_stage"] == {
        START: 2.0,
        "select": 4.0,
        "observe": 3.8,
        "score": 0.7,
        PAGE: 3.0,
        REMAINDER: 1.0,
    }


# A budget.

EXPERIMENT = Experiment(corpora=("stdlib",))


def within(budget: str, passed: float = 30.0, wanted: int = 5_000, stretch: float = 1.0) -> BudgetedSample:
    measure = machine(stretch=stretch)
    execution = Execution(output=Path("run"), budget=budget)
    return choose_sample([measure(16), measure(128)], sampled(wanted), EXPERIMENT, execution, passed)


@pytest.mark.parametrize("budget", ["90s", "3m", "5m"])
@pytest.mark.parametrize("stretch", [1.0, 1.7])
def test_the_sample_is_the_largest_whose_time_fits(budget: str, stretch: float) -> None:
    chosen = within(budget, stretch=stretch)
    # What the warm-ups did in processes of their own before they began has been done here.
    costs = [machine(stretch=stretch)(chosen.limit + more) for more in (0, 1)]
    took = [one.total - one.seconds[START] for one in costs]
    seconds = {"90s": 60, "3m": 150, "5m": 270}[budget]
    assert took[0] <= seconds < took[1]
    assert chosen.expected_seconds == pytest.approx(took[0], abs=0.05)
    assert chosen.of == 5_000


def test_everything_is_taken_where_everything_fits() -> None:
    chosen = within("2h", wanted=1_000)
    assert chosen.limit == chosen.of == 1_000
    assert chosen.sentence.startswith("--budget 2h: all 1,000 functions, expected to take 72 s after")


def test_a_budget_that_no_sample_fits_is_refused_with_what_the_smallest_would_take() -> None:
    with pytest.raises(UsageError) as refused:
        within("35s")
    (line,) = str(refused.value).splitlines()
    assert line == (
        "--budget 35s: no sample fits; the smallest, 16 functions, takes 14 s here and finding that out took "
        "30 s; give 54s or more, or --limit 16"
    )


def test_the_same_command_has_the_same_sample_however_fast_the_machine_is_now(tmp_path: Path) -> None:
    execution = Execution(output=tmp_path, budget="3m")
    assert load_sample(tmp_path, EXPERIMENT, execution) is None
    chosen = within("3m")
    save_sample(tmp_path, chosen)
    assert load_sample(tmp_path, EXPERIMENT, execution) == chosen
    assert with_limit(EXPERIMENT, chosen.limit).selection.limit == chosen.limit
    # The same time, written otherwise.
    assert load_sample(tmp_path, EXPERIMENT, dataclasses.replace(execution, budget="180s")) == chosen
    # Another time, or another experiment.
    assert load_sample(tmp_path, EXPERIMENT, dataclasses.replace(execution, budget="4m")) is None
    other = dataclasses.replace(EXPERIMENT, selection=Selection(seed=1))
    assert load_sample(tmp_path, other, execution) is None


def test_a_damaged_choice_is_refused_and_never_replaced_in_silence(tmp_path: Path) -> None:
    save_sample(tmp_path, within("3m"))
    path = tmp_path / FILE
    path.write_text(path.read_text().replace("limit", "limits"))
    with pytest.raises(StoreError, match="content is not what was written"):
        load_sample(tmp_path, EXPERIMENT, Execution(output=tmp_path, budget="3m"))


def test_a_sample_that_is_fixed_otherwise_has_no_budget() -> None:
    with pytest.raises(UsageError, match="--shard 1/4 is one share"):
        check_sampling_possible(EXPERIMENT, Execution(output=Path("run"), budget="1h", shard="1/4"))
    with pytest.raises(UsageError, match="fixes it; leave one of them out"):
        check_sampling_possible(
            EXPERIMENT, Execution(output=Path("run"), budget="1h", lock=Path("some.lock"))
        )


def test_a_budget_that_is_no_time_is_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="--budget 'soon' is no time"):
        Execution(output=Path("run"), budget="soon")
