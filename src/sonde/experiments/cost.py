"""Cost of a run predicted from trial runs on a few items, and the sample that a time budget allows.

All of the prediction is pure arithmetic over measurements. A run on more items is assumed to cost, in each
stage, a fixed amount plus an amount per item: the line through two trials (warm-ups). Stages that read texts
grow with their characters, the report with each doubling of their number, later stages with the number of
inputs that they read, all others with the number of items; starting and selecting take the same for any
number.

The sample that fits a budget is written to the folder of the run, where a later call finds it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.options import parse_duration
from sonde.experiments.experiment import Execution, Experiment
from sonde.experiments.timing import duration
from sonde.store.checksums import check_intact, write_with_receipt

START, PAGE, OTHER = "start", "report", "other"
"""Stages beside those of a run: Python and imports until it begins; the page; whatever else there is."""


AGAIN = "observe again"
"""Observing in later stages: what a lens looks at more closely once its scores are there."""


_BY_CHARACTERS = frozenset({"label", "observe"})


_WHATEVER_IS_READ = frozenset({START, "select", OTHER})
"""Stages that take as long for few items as for many: a corpus is read as a whole."""


_MOSTLY_FIXED = _WHATEVER_IS_READ | {"draw", PAGE}
"""Those that are, for the first guess from one warm-up."""


FEWEST, FEWEST_DRAWN = 16, 128
"""Items of the first warm-up; of data sets, whose classes each need some examples."""


_STEP = 8
"""The second warm-up has at most so many times the items of the first, and so does each further one."""


_FAR = 8
"""Where a run has more than so many times the items of the last warm-up, another one is worth its time."""


_A_SHARE = 4
"""No warm-up but a run's own size reads more than one of so many items."""


_LEAST_STEP, _FIRM_STEP = 2, 4
"""From one warm-up to the next at least so many times the items; the second where that is cheap. Two that lie
as far apart say how a run grows from there on."""


_SAME_MEMORY = 0.03
"""Of the memory of one run, as much as that of another may differ though it reads no more at a time."""


_LEAST_SHOWN = 0.05
"""Seconds of a stage below which it is not mentioned."""


@dataclass(frozen=True, slots=True)
class InputAmount:
    """How much a run reads.

    Attributes:
        limit: At most this many items a task and language, as ``--limit`` says it.
        inputs: Distinct texts that are read.
        characters: Their characters.
        again: Inputs that later stages read, as far as the lenses say beforehand.
    """

    limit: int
    inputs: int
    characters: int
    again: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What a run of some size took, or is expected to take.

    Attributes:
        amount: What it read.
        seconds: Time by stage, which add up to that of the whole command.
        processor: Processor time by stage, of all processes together.
        memory: Bytes that all processes together held at most at one time.
        device_memory: Bytes on an accelerator; None where there is none.
        disk: Bytes of the run's folder without its page.
        page: Bytes of its page.
        forwards: Inputs that were forwarded, variants of a text counted each.
    """

    amount: InputAmount
    seconds: Mapping[str, float]
    processor: Mapping[str, float]
    memory: int
    disk: int
    forwards: int
    page: int = 0
    device_memory: int | None = None

    @property
    def total(self) -> float:
        """Seconds of the whole command."""
        return sum(self.seconds.values())

    @property
    def processor_seconds(self) -> float:
        """Processor seconds of the whole command."""
        return sum(self.processor.values())

    def left(self, known: frozenset[str] = frozenset({START})) -> float:
        """Seconds of the same in a process that has done some stages already."""
        return sum(seconds for stage, seconds in self.seconds.items() if stage not in known)


def extrapolate_cost(measured: Sequence[RunCost], amount: InputAmount) -> RunCost:
    """What a run of some size is expected to take.

    Processor time is what grows evenly; other work on the machine stretches it, and is taken to stretch each
    stage as it did in all warm-ups together.

    Args:
        measured: Warm-ups, the smallest first; the last speaks of what grows with the one before it, where
            they lie far enough apart, else with the first: not all that scoring does is there in few items.
        amount: The size of the run.
    """
    small, large = measured[0], measured[-1]
    near = measured[max(0, len(measured) - 2)]
    if large.amount.inputs < _FIRM_STEP * near.amount.inputs:
        near = small

    def extrapolate(
        of: Callable[[RunCost], float], by: Callable[[InputAmount], float], below: RunCost = small
    ) -> float:
        return _interpolate((by(below.amount), of(below)), (by(large.amount), of(large)), by(amount))

    def inputs(of: InputAmount) -> int:
        return of.inputs

    def characters(of: InputAmount) -> int:
        return of.characters

    def count_repeats(of: InputAmount) -> int:
        return of.again

    def doublings(of: InputAmount) -> float:
        # A chart shows at most so many points, and a table so many rows.
        return math.log2(max(1, of.inputs))

    def of_stage(stage: str, of: Callable[[RunCost], Mapping[str, float]]) -> float:
        if stage in _WHATEVER_IS_READ:
            return statistics.fmean(of(one).get(stage, 0.0) for one in measured)
        ways = {PAGE: doublings, AGAIN: count_repeats, **dict.fromkeys(_BY_CHARACTERS, characters)}
        by = ways.get(stage, inputs)
        return extrapolate(lambda one: of(one).get(stage, 0.0), by, near)

    stages = dict.fromkeys([*small.seconds, *large.seconds])
    worked = {stage: of_stage(stage, lambda one: one.processor) for stage in stages}
    seconds = {
        stage: worked[stage] * stretch
        if (stretch := _stretch_factor(measured, stage))
        else of_stage(stage, lambda one: one.seconds)
        for stage in stages
    }
    device = None
    if large.device_memory is not None:
        device = round(
            extrapolate(lambda one: _beyond_noise(one.device_memory or 0, small.device_memory or 0), inputs)
        )
    return RunCost(
        amount=amount,
        seconds=seconds,
        processor=worked,
        memory=round(extrapolate(lambda one: _beyond_noise(one.memory, small.memory), inputs)),
        disk=round(extrapolate(lambda one: one.disk, inputs)),
        page=round(extrapolate(lambda one: one.page, doublings)),
        forwards=round(extrapolate(lambda one: one.forwards, lambda of: of.inputs + of.again)),
        device_memory=device,
    )


def _stretch_factor(measured: Sequence[RunCost], stage: str) -> float:
    """Seconds that pass for each that a processor works; 0 where none does."""
    worked = sum(one.processor.get(stage, 0.0) for one in measured)
    return sum(one.seconds.get(stage, 0.0) for one in measured) / worked if worked > 0 else 0.0


def _beyond_noise(held: int, before: int) -> float:
    """Bytes that a warm-up held, less what differs from the first one by chance alone."""
    return before + max(0.0, held - before - _SAME_MEMORY * before)


def _interpolate(small: tuple[float, float], large: tuple[float, float], at: float) -> float:
    """The value of the line through two points; more never takes less."""
    slope = max(0.0, (large[1] - small[1]) / (large[0] - small[0])) if large[0] > small[0] else 0.0
    return max(0.0, large[1] + slope * (at - large[0]))


@dataclass(frozen=True, slots=True)
class TrialCosts:
    """Warm-ups that were done, and what else they told.

    Attributes:
        measured: The smallest first.
    """

    measured: tuple[RunCost, ...] = field(default=())

    @property
    def seconds(self) -> float:
        """What they took together."""
        return sum(one.total for one in self.measured)


def measure_trials(
    measure: Callable[[int], RunCost],
    wanted: int,
    allowance: float,
    *,
    first: int = FEWEST,
    most: float = float("inf"),
) -> TrialCosts:
    """Measure a run on a few items, and on more as long as that is worth its time.

    The first two are measured in any case, so that a line goes through them.

    Args:
        measure: Carries the run out with a limit.
        wanted: The limit of the run that is to be foretold; one that is small enough is measured itself.
        allowance: Seconds that warm-ups may take together, apart from the first two.
        first: The limit of the first; a larger one where no data set is that small.
        most: Seconds after which no further one is begun.

    Raises:
        SondeError: Not even the run itself can be carried out.
    """
    done = TrialCosts((_first_trial(measure, min(first, wanted), wanted),))
    while (limit := _next_limit(done, wanted, allowance)) and done.seconds < most:
        done = TrialCosts((*done.measured, measure(limit)))
    return done


def _first_trial(measure: Callable[[int], RunCost], limit: int, wanted: int) -> RunCost:
    """The smallest run that there can be: a data set needs some examples of every class."""
    while True:
        try:
            return measure(limit)
        except (InputError, UsageError):
            if limit == wanted:
                raise
            limit = min(_A_SHARE * limit, wanted)


def _next_limit(done: TrialCosts, wanted: int, allowance: float) -> int:
    """The limit of the next warm-up; 0 where the run is known well enough, or time is up."""
    measured, last = done.measured, done.measured[-1]
    limit = last.amount.limit
    if limit >= wanted or (len(measured) > 1 and wanted <= _FAR * limit):
        return 0
    most = wanted if wanted <= _LEAST_STEP * limit else max(_LEAST_STEP * limit, wanted // _A_SHARE)
    if len(measured) == 1:
        # How much of the first depends on the items is not known yet: as if all that may did.
        growing = last.left(_MOSTLY_FIXED)
        room = (allowance - 2 * last.total + growing) / max(growing, 1e-9)
        # What differs by chance between two warm-ups grows with the distance to the run: a larger step is
        # worth its time, which is judged by processor time, as a busy machine needs it most.
        worked = sum(last.processor.get(stage, 0.0) for stage in last.seconds if stage not in _MOSTLY_FIXED)
        least = _FIRM_STEP if _FIRM_STEP * worked <= allowance else _LEAST_STEP
        return min(wanted, round(max(least * limit, min(most, _STEP * limit, limit * room))))
    room = allowance - done.seconds
    fits = find_largest(
        lambda one: extrapolate_cost(measured, _scale_amount(last.amount, one)).total <= room,
        limit,
        min(most, _STEP * _STEP * limit),
    )
    return fits if fits >= _LEAST_STEP * limit else 0


def _scale_amount(amount: InputAmount, limit: int) -> InputAmount:
    """As much as another limit gives, if all items are alike."""
    factor = limit / amount.limit
    more = (amount.inputs, amount.characters, amount.again)
    return InputAmount(limit, *(round(factor * number) for number in more))


def find_largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number that fits, where all smaller ones do as well; 0 where not even the least does.

    >>> find_largest(lambda number: number**2 <= 1_000, 1, 100)
    31
    """
    if not fits(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def round_cost(cost: RunCost) -> dict[str, object]:
    """A cost as plain data, without digits that nobody believes."""
    return {
        **dataclasses.asdict(cost.amount),
        "seconds": round(cost.total, 1),
        "by_stage": _round_seconds(cost.seconds),
        "processor_seconds": round(cost.processor_seconds, 1),
        "processor_by_stage": _round_seconds(cost.processor),
        "memory_bytes": cost.memory,
        "device_memory_bytes": cost.device_memory,
        "disk_bytes": cost.disk + cost.page,
        "forwards": cost.forwards,
    }


def _round_seconds(by_stage: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(seconds, 1) for stage, seconds in by_stage.items() if seconds >= _LEAST_SHOWN}


FILE = "budget.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedSample:
    """The sample that a time allows.

    Attributes:
        budget: The time as it was given.
        limit: Items a task and language that are taken.
        of: How many there are.
        unit: What they are, in the plural.
        expected_seconds: What the run on them is expected to take.
        warm_up_seconds: What had passed until that was known.
        experiment: Fingerprint of the experiment, whatever its sample.
    """

    budget: str
    limit: int
    of: int
    unit: str
    expected_seconds: float
    warm_up_seconds: float
    experiment: str

    @property
    def sentence(self) -> str:
        """What is taken, for a person.

        >>> chosen = dict(budget="2h", limit=812, of=5_000, unit="functions", experiment="")
        >>> BudgetedSample(**chosen, expected_seconds=6_900, warm_up_seconds=60).sentence
        '--budget 2h: 812 of 5,000 functions, expected to take 1.9 h after a warm-up of 60 s'
        """
        taken = f"all {self.of:,}" if self.limit >= self.of else f"{self.limit:,} of {self.of:,}"
        return (
            f"--budget {self.budget}: {taken} {self.unit}, expected to take "
            f"{duration(self.expected_seconds)} after a warm-up of {duration(self.warm_up_seconds)}"
        )


def check_sampling_possible(experiment: Experiment, execution: Execution) -> None:
    """Refuse a budget for runs whose sample is fixed otherwise.

    Raises:
        UsageError: The run is one share of several, or on the items of a lock file.
    """
    if execution.shard:
        raise UsageError(
            f"--budget {execution.budget} goes by the time of a whole run, and --shard {execution.shard} is "
            "one share of it; give the shards a --limit, which `sonde run --plan` helps to choose"
        )
    if execution.lock is not None:
        raise UsageError(
            f"--budget {execution.budget} chooses a sample, and the lock file {str(execution.lock)!r} fixes "
            "it; leave one of them out"
        )


def choose_sample(
    measured: Sequence[RunCost],
    amount: Callable[[int], InputAmount],
    wanted: int,
    *,
    execution: Execution,
    passed: float,
    experiment: Experiment,
    unit: str,
) -> BudgetedSample:
    """The largest sample whose expected time fits into what is left of a budget.

    Args:
        measured: Warm-ups, the smallest first.
        amount: What a run with a limit reads.
        wanted: The largest limit that changes anything.
        execution: With the budget.
        passed: Seconds of it that have passed.
        experiment: With any limit or none.
        unit: What is limited, in the plural.

    Raises:
        UsageError: No sample fits; says what the smallest would take.
    """
    left = parse_duration(execution.budget, "--budget") - passed

    def takes(limit: int) -> float:
        # Warm-ups began with a process of their own; this one has begun.
        return extrapolate_cost(measured, amount(limit)).left()

    least = measured[0].amount.limit
    limit = find_largest(lambda one: takes(one) <= left, least, max(least, wanted))
    if not limit:
        needed = measured[0].total + passed
        raise UsageError(
            f"--budget {execution.budget}: no sample fits; the smallest, {least:,} {unit}, takes "
            f"{duration(measured[0].total)} here and finding that out took {duration(passed)}; give "
            f"{_format_budget(needed)} or more, or --limit {least}"
        )
    return BudgetedSample(
        budget=execution.budget,
        limit=limit,
        of=max(wanted, limit),
        unit=unit,
        expected_seconds=round(takes(limit), 1),
        warm_up_seconds=round(passed, 1),
        experiment=experiment_key(experiment),
    )


def _format_budget(seconds: float) -> str:
    """A budget that is certainly enough, as it is written."""
    return f"{-(-seconds * 1.2 // 60):.0f}m" if seconds > 50 else f"{-(-seconds * 1.2 // 1):.0f}s"


def experiment_key(experiment: Experiment) -> str:
    """Fingerprint of an experiment."""
    return fingerprint("budget", experiment)


def load_sample(folder: Path, experiment: Experiment, execution: Execution) -> BudgetedSample | None:
    """The sample that an earlier call of the same command chose; None where there was none.

    However fast the machine is now: other items would begin another run.

    Args:
        folder: The folder of the run.
        experiment: As it was asked for.
        execution: With the budget.

    Raises:
        StoreError: The choice was damaged.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    check_intact(folder, FILE)
    try:
        held = BudgetedSample(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"{path}: cannot be read ({error}); remove it to have a sample chosen anew"
        ) from error
    same = parse_duration(held.budget, FILE) == parse_duration(execution.budget, "--budget")
    return held if same and held.experiment == experiment_key(experiment) else None


def save_sample(folder: Path, chosen: BudgetedSample) -> None:
    """Write a choice into the folder of its run, before the run begins."""
    write_with_receipt(folder, FILE, json.dumps(dataclasses.asdict(chosen), indent=2) + "\n")


def with_limit(experiment: Experiment, chosen: BudgetedSample) -> Experiment:
    """The experiment on the sample that was chosen."""
    selection = dataclasses.replace(experiment.selection, limit=chosen.limit)
    return dataclasses.replace(experiment, selection=selection)


def sample_to_dict(chosen: BudgetedSample) -> dict[str, Any]:
    """What ``run.json`` says of it."""
    held = dataclasses.asdict(chosen)
    del held["experiment"]
    return held
