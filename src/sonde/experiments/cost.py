"""Time and memory of a run, predicted from trials or its first jobs, and the sample for a budget.

While a run observes or trains, its time is told from a few inputs of every kind, tried before it begins, or
else from its first jobs (`Forecast`).

The cost of a run that has not begun is pure arithmetic over measurements. A run on more items is assumed to
cost, in each stage, a fixed amount plus an amount per item: the line through two trials (warm-ups). Stages
that read texts grow with their characters, the report with each doubling of their number, later stages with
the number of inputs that they read, all others with the number of items; starting and selecting take the same
for any number.

The sample that fits a budget is written to the folder of the run, where a later call finds it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import duration
from sonde.base.options import parse_duration
from sonde.experiments.experiment import Execution, Experiment
from sonde.experiments.plan import ObserveJob, TrainJob
from sonde.store.checksums import check_intact, write_with_receipt

_JOBS, _SECONDS = 2, 10.0
"""A kind of work is measured by so many jobs, or by fewer that took so long."""


_WORTH_SAYING = 10.0
"""Seconds: what is over sooner needs no estimate."""


_WORTH_A_TRIAL = 512
"""Inputs of a kind below which its first jobs are a large part of it anyway."""


Job = TypeVar("Job")


_Kind = tuple[str, frozenset[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProfile:
    """A job as an estimate sees it.

    Attributes:
        subject: What the work is summed by: the name of a model.
        does: What is done with each input: names of lenses, or of what is trained.
        where: Corpus and language: inputs of one take equally long.
        size: How many inputs.
        control: Whether it belongs to a control of the subject, which is as fast.
    """

    subject: str
    does: frozenset[str]
    where: str
    size: int
    control: bool = False


class Forecast:
    """Gives one line for each subject: before its first job where a few inputs of every kind were tried.

    Else as soon as every kind of its work has been measured.

    Args:
        verb: What is done, for example ``"observing"``.
        unit: What it is done with, for example ``"input"``.
        works: All jobs.
        workers: Jobs at a time.
    """

    def __init__(self, verb: str, unit: str, works: Sequence[JobProfile], workers: int) -> None:
        self._verb, self._unit = verb, unit
        self._workers = max(1, min(workers, len(works)))
        self._open: defaultdict[str, list[JobProfile]] = defaultdict(list)
        for work in works:
            self._open[work.subject].append(work)
        self._planned = {subject: list(mine) for subject, mine in self._open.items()}
        self._jobs: Counter[_Kind] = Counter()
        self._size: Counter[_Kind] = Counter()
        self._seconds: defaultdict[_Kind, float] = defaultdict(float)
        self._tried: dict[_Kind, tuple[int, float]] = {}
        self._said: set[str] = set()

    def describe_plan(self) -> list[str]:
        """One line a subject on what there is to do, for before the first job is done."""
        return [line for subject in self._planned if (line := self.start(subject))]

    def add_trial(self, work: JobProfile, inputs: int, seconds: float) -> None:
        """Take in what a few inputs of a kind took, before its first job.

        Args:
            work: Any job of the kind.
            inputs: How many were tried.
            seconds: What they took together.
        """
        self._tried[_work_kind(work)] = inputs, seconds

    def start(self, subject: str) -> str:
        """What is left to do with a subject, and how long it takes where every kind of it was tried.

        Nothing where nothing is left.
        """
        left = self._open[subject]
        kinds = {_work_kind(work) for work in left if not work.control}
        if not left:
            return ""
        what = f"{self._verb} {_count_inputs(left):,} {self._unit}s with {subject}{_parts(left)}"
        if not kinds or kinds - self._tried.keys():
            return f"{what}; how long it takes is said when the first are done"
        self._said.add(subject)
        seconds = self._remaining_seconds(subject)
        pace = _count_inputs(left) / seconds
        number = sum(self._tried[kind][0] for kind in kinds)
        return (
            f"{what}: about {duration(seconds)} at {self._speed(pace)} (estimated from {number:,} of them)"
            f"{self._later_subjects(pace)}"
        )

    def done(self, work: JobProfile, seconds: float | None) -> str:
        """Take in a finished job, and give the line of its subject when it can be said; else nothing.

        Args:
            work: The job.
            seconds: What it took; None where its results were there already.
        """
        # What seemed to be there already and turns out damaged is no longer open.
        if work in self._open[work.subject]:
            self._open[work.subject].remove(work)
        if seconds is None:
            self._planned[work.subject].remove(work)
            return ""
        kind = _work_kind(work)
        self._jobs[kind] += 1
        self._size[kind] += work.size
        self._seconds[kind] += seconds
        if work.subject in self._said or not self._has_measurements(work.subject):
            return ""
        self._said.add(work.subject)
        return self._line(work.subject)

    def _has_measurements(self, subject: str) -> bool:
        return all(
            self._jobs[kind] >= _JOBS or self._seconds[kind] >= _SECONDS
            for kind in {_work_kind(work) for work in self._open[subject] if not work.control}
        )

    def _line(self, subject: str) -> str:
        seconds = self._remaining_seconds(subject)
        if seconds < _WORTH_SAYING:
            return ""
        pace = _count_inputs(self._open[subject]) / seconds
        planned = _count_inputs(self._planned[subject])
        first = sum(size for kind, size in self._size.items() if kind[0] == subject)
        return (
            f"{self._verb} {planned:,} {self._unit}s with {subject}{_parts(self._planned[subject])}: about "
            f"{duration(seconds)} left at {self._speed(pace)} (estimated from the first {first:,})"
            f"{self._later_subjects(pace)}"
        )

    def _remaining_seconds(self, subject: str) -> float:
        """Seconds until a subject is done."""
        return sum(work.size * self._pace(work) for work in self._open[subject]) / self._workers

    def _speed(self, pace: float) -> str:
        if pace >= 1.5:
            return f"{pace:,.0f} {self._unit}s a second"
        return f"one {self._unit} every {duration(1 / pace)}"

    def _later_subjects(self, pace: float) -> str:
        """What comes after it with other subjects."""
        later = [work for other, mine in self._open.items() if other not in self._said for work in mine]
        if not later:
            return ""
        names = ", ".join(dict.fromkeys(work.subject for work in later))
        size = _count_inputs(later)
        return f"; then {size:,} with {names}, another {duration(size / pace)} if as fast"

    def _pace(self, work: JobProfile) -> float:
        """Seconds an input: of its kind, else of the kinds that do the same and more, else of all.

        What jobs took counts before what a few inputs did.
        """
        done = {kind: (size, self._seconds[kind]) for kind, size in self._size.items() if size}
        measured = self._tried | done
        mine = [kind for kind in measured if kind[0] == work.subject]
        kinds = [kind for kind in mine if kind == _work_kind(work)]
        kinds = kinds or [kind for kind in mine if kind[1] >= work.does] or mine
        return sum(measured[kind][1] for kind in kinds) / sum(measured[kind][0] for kind in kinds)


def _count_inputs(works: Sequence[JobProfile]) -> int:
    return sum(work.size for work in works)


def _parts(works: Sequence[JobProfile]) -> str:
    """How many inputs are for which lenses, and for controls; nothing where all are for the same."""
    sizes: Counter[str] = Counter()
    for work in works:
        sizes["controls" if work.control else " and ".join(sorted(work.does))] += work.size
    parts = ", ".join(f"{what} {size:,}" for what, size in sorted(sizes.items(), key=lambda one: -one[1]))
    return f" ({parts})" if len(sizes) > 1 else ""


def put_trials_first(jobs: Sequence[Job], work_of: Callable[[Job], JobProfile]) -> list[Job]:
    """The jobs of each subject in their order, but for two of each kind that go before the others."""
    order: dict[tuple[str, bool], list[tuple[bool, Job]]] = {}
    begun: Counter[_Kind] = Counter()
    for job in jobs:
        work = work_of(job)
        kind = _work_kind(work)
        # Controls are as fast as their subject and need other weights: they are not asked first.
        later = work.control or begun[kind] >= _JOBS
        begun[kind] += not later
        order.setdefault((work.subject, work.control), []).append((later, job))
    return [job for mine in order.values() for _, job in sorted(mine, key=lambda entry: entry[0])]


def group_trial_jobs(jobs: Sequence[Job], work_of: Callable[[Job], JobProfile]) -> list[list[Job]]:
    """The jobs of each kind, where all kinds are large enough for a trial to cost little beside them.

    All or none: a forecast needs each of them.
    """
    kinds: defaultdict[_Kind, list[Job]] = defaultdict(list)
    for job in jobs:
        # Controls are as fast as their subject.
        if not work_of(job).control:
            kinds[_work_kind(work_of(job))].append(job)
    each = list(kinds.values())
    large = all(_count_inputs([work_of(job) for job in mine]) >= _WORTH_A_TRIAL for mine in each)
    return each if large else []


def _work_kind(work: JobProfile) -> _Kind:
    return work.subject, work.does, work.where


def observation_work(job: ObserveJob) -> JobProfile:
    """An observation: what its lenses do with its items."""
    model = job.model
    return JobProfile(
        subject=model.full_name,
        does=frozenset(part.lens.name for part in job.parts),
        where=f"{job.corpus} {job.language}",
        size=len(job.item_ids),
        control=model.reinitialise is not None,
    )


def training_work(job: TrainJob) -> JobProfile:
    """A training run."""
    return JobProfile(
        subject=job.model.full_name, does=frozenset({job.method.name}), where=job.corpus, size=1
    )


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
