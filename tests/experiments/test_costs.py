"""What a run will cost: the arithmetic, on machines whose speed is given."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.cost import (
    AGAIN,
    FEWEST,
    FILE,
    OTHER,
    PAGE,
    START,
    BudgetedSample,
    InputAmount,
    RunCost,
    check_sampling_possible,
    choose_sample,
    extrapolate_cost,
    find_largest,
    load_sample,
    measure_trials,
    round_cost,
    save_sample,
    with_limit,
)

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
            PAGE: 3.0 + 0.2 * math.log2(limit),
            OTHER: 1.0,
        }
        return RunCost(
            amount=amount(limit),
            seconds={stage: stretch * seconds for stage, seconds in processor.items()},
            processor=processor,
            memory=800_000_000 + 1_000_000 * limit,
            disk=2_000_000 + 5_000 * limit,
            page=1_000_000,
            forwards=4 * limit,
        )

    return measure


def costs(measured: RunCost) -> Mapping[str, float]:
    return {**measured.seconds, "disk": measured.disk, "f": measured.forwards}


def test_a_run_that_grows_evenly_is_foretold_exactly() -> None:
    measure = machine()
    found = extrapolate_cost([measure(16), measure(128)], amount(10_000))
    assert costs(found) == pytest.approx(costs(measure(10_000)))
    assert found.memory == pytest.approx(measure(10_000).memory, rel=0.3)
    assert found.total == pytest.approx(13.5 + 0.06 * 10_000 + 0.2 * math.log2(10_000))
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
        return RunCost(
            amount=amount, seconds=seconds, processor=seconds, memory=0, disk=0, forwards=limit + again
        )

    found = extrapolate_cost([measure(16), measure(128)], measure(10_000).amount)
    assert found.seconds == pytest.approx({"observe": 500.0, AGAIN: 12.0})
    assert found.forwards == 10_400


def test_what_is_not_there_in_few_items_does_not_grow_with_their_number() -> None:
    """Relations that few functions have are scored from some size on: the last two warm-ups know them all."""
    late = [
        dataclasses.replace(one, processor={**one.processor, "score": one.processor["score"] + more})
        for one, more in zip(map(machine(), (16, 128, 1_024)), (0.0, 30.0, 30.0), strict=True)
    ]
    found, usual = extrapolate_cost(late, amount(10_000)), machine()(10_000)
    assert found.processor["score"] == pytest.approx(usual.processor["score"] + 30.0)


def test_one_warm_up_of_the_whole_run_is_its_cost() -> None:
    assert extrapolate_cost([machine()(40)], amount(40)).total == pytest.approx(machine()(40).total)


def test_noise_of_what_is_the_same_for_any_sample_does_not_grow_with_it() -> None:
    small, large = machine()(16), machine()(32)
    slow = dataclasses.replace(
        large, processor={**large.processor, START: 2.4}, seconds={**large.seconds, START: 2.4}
    )
    assert extrapolate_cost([small, slow], amount(10_000)).seconds[START] == pytest.approx(2.2)


def test_memory_that_differs_by_chance_does_not_grow_with_the_sample() -> None:
    small, large = (
        dataclasses.replace(machine()(limit), memory=held)
        for limit, held in ((16, 814 << 20), (84, 821 << 20))
    )
    assert extrapolate_cost([small, large], amount(10_000)).memory == 814 << 20
    grown = dataclasses.replace(large, memory=1_000 << 20)
    assert extrapolate_cost([small, grown], amount(10_000)).memory > 10_000 << 20


def test_a_run_is_never_expected_to_take_less_for_more() -> None:
    faster = dataclasses.replace(machine()(16), amount=amount(64))
    found = extrapolate_cost([machine()(32), faster], amount(10_000))
    assert found.total == pytest.approx(faster.total, rel=0.15)


def test_other_work_on_the_machine_stretches_every_stage() -> None:
    measure = machine(stretch=2.5)
    found = extrapolate_cost([measure(16), measure(128)], amount(1_000))
    assert found.total == pytest.approx(2.5 * machine()(1_000).total)
    assert found.processor_seconds == pytest.approx(machine()(1_000).total)


def test_waiting_for_what_is_no_processor_grows_by_itself() -> None:
    small, large = (
        dataclasses.replace(machine()(limit), seconds={"observe": 0.5 * limit}, processor={})
        for limit in (16, 32)
    )
    assert extrapolate_cost([small, large], amount(100)).total == pytest.approx(50)


def test_warm_ups_read_more_until_the_run_is_near() -> None:
    asked: list[int] = []

    def measure(limit: int) -> RunCost:
        asked.append(limit)
        return machine()(limit)

    done = measure_trials(measure, 1_000, 120.0)
    assert asked == [FEWEST, 128]
    assert done.seconds == pytest.approx(machine()(16).total + machine()(128).total)
    asked.clear()
    measure_trials(measure, 100_000, 300.0)
    assert asked[:2] == [16, 128]
    assert 2_000 < asked[2] <= 8_192
    assert sum(machine()(limit).total for limit in asked) <= 300
    asked.clear()
    measure_trials(measure, 60, 120.0)
    assert asked == [16, 60]
    asked.clear()
    measure_trials(measure, 20, 120.0)
    assert asked == [16, 20]
    asked.clear()
    measure_trials(measure, 10, 120.0)
    assert asked == [10]


def test_a_slow_model_is_tried_on_few_items() -> None:
    asked: list[int] = []

    def measure(limit: int) -> RunCost:
        asked.append(limit)
        return machine(item=12.0)(limit)

    measure_trials(measure, 100_000, 120.0)
    assert asked == [16, 32]


def test_a_busy_machine_is_measured_as_far_as_an_idle_one() -> None:
    asked: list[int] = []

    def measure(limit: int) -> RunCost:
        asked.append(limit)
        return machine(stretch=5.0)(limit)

    measure_trials(measure, 1_000, 60.0)
    assert asked[:2] == [16, 64]


def test_no_warm_up_begins_when_time_is_up() -> None:
    assert len(measure_trials(machine(), 1_000, 120.0, most=5.0).measured) == 1


def test_data_sets_that_are_too_small_are_tried_larger() -> None:
    def measure(limit: int) -> RunCost:
        if limit < 100:
            raise InputError("a data set of 16 examples has no room")
        return machine()(limit)

    assert [one.amount.limit for one in measure_trials(measure, 1_000, 120.0).measured] == [256, 1_000]
    with pytest.raises(InputError, match="has no room"):
        measure_trials(measure, 90, 120.0)


def test_the_largest_that_fits() -> None:
    assert find_largest(lambda number: number <= 37, 16, 1_000) == 37
    assert find_largest(lambda number: number <= 37, 16, 30) == 30
    assert find_largest(lambda number: number <= 3, 16, 1_000) == 0


def test_a_cost_as_data_has_no_digits_that_nobody_believes() -> None:
    found = round_cost(extrapolate_cost([machine()(16)], amount(16)))
    assert found["seconds"] == 15.3
    assert found["memory_bytes"] == 816_000_000
    assert found["disk_bytes"] == 3_080_000
    assert found["device_memory_bytes"] is None
    assert found["by_stage"] == {
        START: 2.0,
        "select": 4.0,
        "observe": 3.8,
        "score": 0.7,
        PAGE: 3.8,
        OTHER: 1.0,
    }


# A budget.

EXPERIMENT = Experiment(corpora=("stdlib",))


def within(budget: str, passed: float = 30.0, wanted: int = 5_000, stretch: float = 1.0) -> BudgetedSample:
    measure = machine(stretch=stretch)
    return choose_sample(
        [measure(16), measure(128)],
        amount,
        wanted,
        execution=Execution(output=Path("run"), budget=budget),
        passed=passed,
        experiment=EXPERIMENT,
        unit="functions",
    )


@pytest.mark.parametrize("budget", ["90s", "3m", "5m"])
@pytest.mark.parametrize("stretch", [1.0, 1.7])
def test_the_sample_is_the_largest_whose_time_fits(budget: str, stretch: float) -> None:
    chosen = within(budget, stretch=stretch)
    # What the warm-ups did in processes of their own before they began has been done here.
    took = [machine(stretch=stretch)(chosen.limit + more).left() for more in (0, 1)]
    seconds = {"90s": 60, "3m": 150, "5m": 270}[budget]
    assert took[0] <= seconds < took[1]
    assert chosen.expected_seconds == pytest.approx(took[0], abs=0.05)
    assert chosen.of == 5_000


def test_everything_is_taken_where_everything_fits() -> None:
    chosen = within("2h", wanted=1_000)
    assert chosen.limit == chosen.of == 1_000
    assert chosen.sentence.startswith("--budget 2h: all 1,000 functions, expected to take 74 s after")


def test_a_budget_that_no_sample_fits_is_refused_with_what_the_smallest_would_take() -> None:
    with pytest.raises(UsageError) as refused:
        within("35s")
    (line,) = str(refused.value).splitlines()
    assert line == (
        "--budget 35s: no sample fits; the smallest, 16 functions, takes 15 s here and finding that out took "
        "30 s; give 55s or more, or --limit 16"
    )


def test_the_same_command_has_the_same_sample_however_fast_the_machine_is_now(tmp_path: Path) -> None:
    execution = Execution(output=tmp_path, budget="3m")
    assert load_sample(tmp_path, EXPERIMENT, execution) is None
    chosen = within("3m")
    save_sample(tmp_path, chosen)
    assert load_sample(tmp_path, EXPERIMENT, execution) == chosen
    assert with_limit(EXPERIMENT, chosen).selection.limit == chosen.limit
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
