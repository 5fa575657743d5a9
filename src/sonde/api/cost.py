"""Cost and power of a run before it begins: ``sonde run --plan`` and ``--budget``.

Time is measured by two runs on a few items (warm-ups), each in a process of its own, so that its time is that
of a whole command. A run on more items is assumed to take, in each stage, a fixed time plus a time per item:
the line through both. Stages that read texts grow with their characters, later stages with the number of
inputs that they read, all others with the number of items; starting, selecting and the report take the same
for any number. The memory of model trainings is estimated before any weight is read.

The sample that fits a budget is written to the folder of the run, where a later call finds it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sonde.api.outputs import OutputOptions, write_outputs
from sonde.base.errors import InputError, SondeError, StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import duration
from sonde.base.options import parse_duration
from sonde.base.process import safe_path_environment
from sonde.base.progress import NullProgress, Progress
from sonde.experiments import Execution, Experiment
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.plan import TrainJob
from sonde.experiments.progress import AGAIN, processor_time
from sonde.experiments.resolve import uses_datasets
from sonde.experiments.run import run
from sonde.experiments.workload import (
    ASSUMPTIONS,
    DetectableEffect,
    InputAmount,
    Question,
    Workload,
    compute_detectable_effects,
    find_cluster_designs,
    measure_amount,
)
from sonde.lenses.finetune.options import LENS, PRETRAINED, SCRATCH, FinetuneOptions
from sonde.models.engine.files import uses_server
from sonde.report import RunData, answer_by_task
from sonde.stats.power import ClusterDesign
from sonde.store.checksums import check_intact, write_with_receipt
from sonde.store.parts import SIZE_ENV, PartStore
from sonde.store.remote import fetch_folder

START, PAGE, REMAINDER = "start", "report", "other"
"""Stages beside those of a run: Python and imports until it begins; the page; whatever else there is."""


_CONSTANT = frozenset({START, "select", PAGE, REMAINDER})
"""Stages that take as long for few items as for many: a corpus is read as a whole, a page shows a part."""


_GROWS_WITH = {"label": "characters", "observe": "characters", AGAIN: "again"}
"""What of `InputAmount` a stage grows with; all others grow with the inputs."""


FIRST_LIMIT, FIRST_DATASET_LIMIT = 16, 128
"""Items of the first warm-up; of data sets, whose classes each need some examples."""


_STEPS = 2, 16
"""The second warm-up has at least and at most so many times the items of the first."""


_LARGER = 4
"""Where no data set is as small as a first warm-up, so many times its items are tried."""


_LEAST_SHOWN = 0.05
"""Seconds of a stage below which it is not mentioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """Measured or expected cost of a run.

    Attributes:
        amount: What it read.
        seconds: Time by stage, which add up to that of the whole command.
        processor: Processor time by stage, of all processes together.
        forwards: Inputs that were forwarded, variants of a text counted each.
    """

    amount: InputAmount
    seconds: Mapping[str, float]
    processor: Mapping[str, float]
    forwards: int

    @property
    def total(self) -> float:
        """Return the seconds of the whole command."""
        return sum(self.seconds.values())

    @property
    def processor_seconds(self) -> float:
        """Return the CPU seconds of the whole command."""
        return sum(self.processor.values())

    @property
    def data(self) -> dict[str, object]:
        """Convert to plain data, rounded."""
        return {
            **dataclasses.asdict(self.amount),
            "seconds": round(self.total, 1),
            "by_stage": _round_seconds(self.seconds),
            "processor_seconds": round(self.processor_seconds, 1),
            "processor_by_stage": _round_seconds(self.processor),
            "forwards": self.forwards,
        }


def _round_seconds(by_stage: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(seconds, 1) for stage, seconds in by_stage.items() if seconds >= _LEAST_SHOWN}


def extrapolate_cost(trial_costs: Sequence[RunCost], amount: InputAmount) -> RunCost:
    """Predict the cost of a run.

    Args:
        trial_costs: Warm-ups, the smallest first.
        amount: The size of the run.
    """

    def extrapolate(size: str, values: Sequence[float]) -> float:
        """Return the value of the line through the first and the last; more never takes less."""
        small, large = (getattr(cost.amount, size) for cost in (trial_costs[0], trial_costs[-1]))
        slope = max(0.0, (values[-1] - values[0]) / (large - small)) if large > small else 0.0
        return max(0.0, values[-1] + slope * (getattr(amount, size) - large))

    def extrapolate_stages(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
        by_stage: dict[str, float] = {}
        for stage in dict.fromkeys(stage for by_stage in times for stage in by_stage):
            values = [by_stage.get(stage, 0.0) for by_stage in times]
            size = _GROWS_WITH.get(stage, "inputs")
            by_stage[stage] = statistics.fmean(values) if stage in _CONSTANT else extrapolate(size, values)
        return by_stage

    return RunCost(
        amount=amount,
        seconds=extrapolate_stages([cost.seconds for cost in trial_costs]),
        processor=extrapolate_stages([cost.processor for cost in trial_costs]),
        forwards=round(extrapolate("reads", [cost.forwards for cost in trial_costs])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """A run on a few items.

    Attributes:
        cost: What it took.
        answers: The rows of scores that speak for each lens and task, and the paired difference to the best
            control beside each (None without one).
        clusterings: How its items fell into clusters.
    """

    cost: RunCost
    answers: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    clusterings: Mapping[Question, ClusterDesign]


def run_trial(experiment: Experiment, execution: Execution, outputs: OutputOptions) -> TrialRun:
    """Run an experiment in a process of its own, and keep only its cost.

    Args:
        experiment: With the limit that is tried.
        execution: How; the folder is another.
        outputs: What is written when the scores are there.

    Raises:
        SondeError: The run failed, or its process died.
    """
    with tempfile.TemporaryDirectory(prefix="sonde-warm-up-") as folder, safe_path_environment():
        trial_execution = dataclasses.replace(
            execution, output=Path(folder) / "run", budget="", chosen=None, shard="", merges=""
        )
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            trial = process.submit(_run_in_process, experiment, trial_execution, outputs, time.monotonic())
            try:
                return trial.result()
            except BrokenProcessPool:
                raise SondeError(
                    f"the warm-up with {experiment.selection.limit} items a task and language died (out of "
                    "memory?); a smaller --batch-tokens or fewer --workers take less"
                ) from None


def _run_in_process(
    experiment: Experiment, execution: Execution, outputs: OutputOptions, start_time: float
) -> TrialRun:
    """Run an experiment from its start to its report; called in a new process."""
    start, used = time.monotonic() - start_time, processor_time()
    # What another run has read is not read again, and would cost nothing here.
    os.environ[SIZE_ENV] = "0"
    sys.stdout = sys.stderr
    try:
        outcome = run(experiment, execution, NullProgress())
        score_time, used_by_scores = time.monotonic(), processor_time()
        folder = outcome.directory
        write_outputs(outputs, outcome, folder.root, NullProgress())
        end_time, used_by_all = time.monotonic(), processor_time()
        seconds = {START: start, **outcome.seconds, PAGE: end_time - score_time}
        processor = {START: used, **outcome.processor, PAGE: used_by_all - used_by_scores}
        seconds[REMAINDER] = max(0.0, end_time - start_time - sum(seconds.values()))
        processor[REMAINDER] = max(0.0, used_by_all - sum(processor.values()))
        return TrialRun(
            cost=RunCost(
                amount=measure_amount(experiment.selection.limit or 0, outcome.readings),
                seconds=seconds,
                processor=processor,
                forwards=int(folder.read_summary()["forwards"].get("run", 0)),
            ),
            answers=[(answer.row, answer.gain) for answer in answer_by_task(RunData(folder.root))],
            clusterings=find_cluster_designs(outcome.readings, PartStore(folder.root)),
        )
    except SondeError:
        raise
    except Exception as error:
        raise SondeError(f"the warm-up failed: {type(error).__name__}: {error}") from None


def estimate_training_memory(jobs: Iterable[TrainJob]) -> tuple[Mapping[str, Any], ...]:
    """Estimate the memory of each model and way of training.

    Args:
        jobs: Trainings; those of models count, baselines are small.

    Returns:
        ``model, how, total, weights, moving, states, examples, length`` of each.
    """
    from sonde.models import resolve_auto
    from sonde.training.finetune.memory import estimate_memory
    from sonde.training.precision import uses_bfloat16

    estimates: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for job in jobs:
        if job.part.lens.name != LENS or uses_server(job.model):
            continue
        options = dict(job.method.options)
        if job.method.name not in (PRETRAINED, SCRATCH) or options.get("as_saved"):
            continue
        settings = get_lens_settings(job.part.lens.observation_lens)
        settings = dataclasses.replace(settings, options={**settings.options, **options})
        recipe = FinetuneOptions.read(settings.options).recipe(settings)
        spec = resolve_auto(job.model)
        import torch

        half_precision = uses_bfloat16(recipe.precision, torch.device(spec.device))
        memory = estimate_memory(spec, recipe, half_precision=half_precision)
        method = f"LoRA of rank {recipe.lora_rank}" if recipe.lora_rank else "all weights"
        method = "the head alone" if recipe.frozen else method
        key = (spec.name, method, memory, recipe.length)
        estimates[key] = {
            "model": spec.name,
            "how": method,
            "length": recipe.length,
            **dataclasses.asdict(memory),
            "total": memory.total,
        }
    return tuple(estimates.values())


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
        """Describe the sample for a person.

        >>> chosen = dict(budget="2h", limit=812, of=5_000, unit="functions", experiment="")
        >>> BudgetedSample(**chosen, expected_seconds=6_900, warm_up_seconds=60).sentence
        '--budget 2h: 812 of 5,000 functions, expected to take 1.9 h after a warm-up of 60 s'
        """
        quantity = f"all {self.of:,}" if self.limit >= self.of else f"{self.limit:,} of {self.of:,}"
        return (
            f"--budget {self.budget}: {quantity} {self.unit}, expected to take "
            f"{duration(self.expected_seconds)} after a warm-up of {duration(self.warm_up_seconds)}"
        )

    @property
    def data(self) -> dict[str, Any]:
        """Convert to plain data for ``run.json``."""
        fields = dataclasses.asdict(self)
        del fields["experiment"]
        return fields


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
    trial_costs: Sequence[RunCost],
    workload: Workload,
    experiment: Experiment,
    execution: Execution,
    elapsed: float,
) -> BudgetedSample:
    """Choose the largest sample whose expected time fits into the remaining budget.

    Args:
        trial_costs: Warm-ups, the smallest first.
        workload: The run whose sample it is.
        experiment: With any limit or none.
        execution: With the budget.
        elapsed: Seconds of it that have passed.

    Raises:
        UsageError: No sample fits; says what the smallest would take.
    """
    left = parse_duration(execution.budget, "--budget") - elapsed

    def expect_seconds(limit: int) -> float:
        # Warm-ups began with a process of their own; this one has begun.
        cost = extrapolate_cost(trial_costs, workload.amount(limit))
        return cost.total - cost.seconds.get(START, 0.0)

    minimum = trial_costs[0].amount.limit
    limits = range(minimum, max(minimum, workload.effective_limit) + 1)
    fitting_count = bisect_right(limits, left, key=expect_seconds)
    if not fitting_count:
        required_seconds = trial_costs[0].total + elapsed
        raise UsageError(
            f"--budget {execution.budget}: no sample fits; the smallest, {minimum:,} {workload.unit}, takes "
            f"{duration(trial_costs[0].total)} here and finding that out took {duration(elapsed)}; give "
            f"{_format_budget(required_seconds)} or more, or --limit {minimum}"
        )
    limit = limits[fitting_count - 1]
    return BudgetedSample(
        budget=execution.budget,
        limit=limit,
        of=limits[-1],
        unit=workload.unit,
        expected_seconds=round(expect_seconds(limit), 1),
        warm_up_seconds=round(elapsed, 1),
        experiment=experiment_key(experiment),
    )


def _format_budget(seconds: float) -> str:
    """Format a budget that is certainly enough."""
    return f"{-(-seconds * 1.2 // 60):.0f}m" if seconds > 50 else f"{-(-seconds * 1.2 // 1):.0f}s"


def experiment_key(experiment: Experiment) -> str:
    """Return the fingerprint of an experiment."""
    return fingerprint("budget", experiment)


def load_sample(folder: Path, experiment: Experiment, execution: Execution) -> BudgetedSample | None:
    """Load the sample that an earlier call of the same command chose; None without one.

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
        sample = BudgetedSample(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"{path}: cannot be read ({error}); remove it to have a sample chosen anew"
        ) from error
    same_budget = parse_duration(sample.budget, FILE) == parse_duration(execution.budget, "--budget")
    return sample if same_budget and sample.experiment == experiment_key(experiment) else None


def save_sample(folder: Path, sample: BudgetedSample) -> None:
    """Write a choice into the folder of its run, before the run begins."""
    write_with_receipt(folder, FILE, json.dumps(dataclasses.asdict(sample), indent=2) + "\n")


def with_limit(experiment: Experiment, limit: int) -> Experiment:
    """Return the experiment with a limit."""
    selection = dataclasses.replace(experiment.selection, limit=limit)
    return dataclasses.replace(experiment, selection=selection)


_PLAN_SECONDS = 20.0
"""What grows with the items may take so long in the second warm-up of a plan."""


_BUDGET_SHARE = 0.25
"""The same of the second warm-up for a budget, as a share of the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Cost and power of a run.

    Attributes:
        folder: Where it would lie.
        limit: Items a task and language that it takes.
        unit: What these are, in the plural.
        jobs: Observations and trainings.
        trainings: Trainings among them.
        finished_jobs: Those whose tables the folder holds already.
        inputs: Distinct texts that are read.
        characters: Their characters.
        tokens: Subwords that jobs read of texts as they are; None where a server cuts them.
        cost: What it is expected to take from nothing; None where there was no warm-up.
        warm_ups: What was measured for that.
        shows: What the sample can show.
        why_no_cost: Why there was no warm-up; empty where there was one.
        chosen: What a budget came to; None without one.
        training: What trainings of models take of memory; see `sonde.api.cost.estimate_training_memory`.
    """

    folder: Path
    limit: int
    unit: str
    jobs: int
    trainings: int
    finished_jobs: int
    inputs: int
    characters: int
    tokens: int | None
    cost: RunCost | None
    warm_ups: tuple[RunCost, ...]
    shows: tuple[DetectableEffect, ...]
    why_no_cost: str = ""
    chosen: BudgetedSample | None = None
    training: tuple[Mapping[str, Any], ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "folder": str(self.folder),
            "limit": self.limit,
            "unit": self.unit,
            "jobs": self.jobs,
            "trainings": self.trainings,
            "jobs_there": self.finished_jobs,
            "inputs": self.inputs,
            "characters": self.characters,
            "tokens": self.tokens,
            "cost": self.cost.data if self.cost else None,
            "why_no_cost": self.why_no_cost,
            "warm_ups": [cost.data for cost in self.warm_ups],
            "shows": [dataclasses.asdict(effect) for effect in self.shows],
            "assumed": ASSUMPTIONS,
            "budget": self.chosen.data if self.chosen else None,
            "training": [dict(memory) for memory in self.training],
        }


def estimate_cost(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: OutputOptions | None = None,
    trial: bool = True,
    progress: Progress | None = None,
) -> CostEstimate:
    """Estimate the cost and power of a run; nothing of it is kept.

    Args:
        experiment: What would be measured.
        execution: How and where; with a budget, the plan is that of the sample that it allows.
        wanted: What would be written when the scores are there.
        trial: Whether the run is carried out on a few items, which loads its models, to know its time.
        progress: Is told what goes on.

    Raises:
        SondeError: As for the run: what cannot be run cannot be planned.
    """
    start, progress, wanted = time.monotonic(), progress or NullProgress(), wanted or OutputOptions()
    sample = None
    if execution.budget:
        check_sampling_possible(experiment, execution)
        if not trial:
            raise UsageError(
                f"--budget {execution.budget} needs to know how fast the run is; leave out --no-trial"
            )
        sample = load_sample(_existing_folder(execution.output), experiment, execution)
    with tempfile.TemporaryDirectory(prefix="sonde-plan-") as folder:
        limited = with_limit(experiment, sample.limit) if sample else experiment
        workload = _read_workload(limited, execution, Path(folder), progress)
        reason = _no_trial_reason(workload) if trial else "no warm-up was wanted (--no-trial)"
        trials = [] if reason else _run_trials(workload, experiment, execution, wanted, progress)
        trial_costs = tuple(trial_run.cost for trial_run in trials)
        if execution.budget and sample is None:
            sample = choose_sample(trial_costs, workload, experiment, execution, _elapsed_seconds(start))
            limited = with_limit(experiment, sample.limit)
            workload = _read_workload(limited, execution, Path(folder) / "chosen", progress)
        amount = workload.amount(workload.effective_limit)
        designs = find_cluster_designs(workload.readings, workload.session.store)
        answers, trial_designs = (trials[-1].answers, trials[-1].clusterings) if trials else ((), {})
        return CostEstimate(
            folder=execution.output,
            limit=workload.effective_limit,
            unit=workload.unit,
            jobs=len(workload.plan.jobs) + len(workload.plan.trainings),
            trainings=len(workload.plan.trainings),
            finished_jobs=workload.finished_jobs(_existing_folder(execution.output)),
            inputs=amount.inputs,
            characters=amount.characters,
            tokens=workload.subwords(),
            cost=extrapolate_cost(trial_costs, amount) if trial_costs else None,
            warm_ups=trial_costs,
            shows=tuple(compute_detectable_effects(answers, trial_designs, designs)),
            why_no_cost=reason,
            chosen=sample,
            training=estimate_training_memory(workload.plan.trainings),
        )


def fit_to_budget(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: OutputOptions | None = None,
    begun: float | None = None,
    progress: Progress | None = None,
) -> tuple[Experiment, Execution]:
    """Limit an experiment to the largest sample whose expected time fits its budget.

    The same experiment in the same folder with the same budget has the sample that it had.

    Args:
        experiment: With any limit, which is not exceeded, or none.
        execution: With a budget, or without one, and then nothing is changed.
        wanted: What is written when the scores are there, which takes time as well.
        begun: When the command began, by `time.monotonic`; by default now.
        progress: Is told what is taken.

    Raises:
        UsageError: No sample fits, or the run cannot have one.
        SondeError: As for the run.
    """
    if not execution.budget:
        return experiment, execution
    begun = time.monotonic() if begun is None else begun
    progress, wanted = progress or NullProgress(), wanted or OutputOptions()
    check_sampling_possible(experiment, execution)
    sample = load_sample(execution.output, experiment, execution)
    if sample is None:
        with tempfile.TemporaryDirectory(prefix="sonde-budget-") as folder:
            workload = _read_workload(experiment, execution, Path(folder), progress)
            if reason := _no_trial_reason(workload):
                raise UsageError(f"--budget {execution.budget}: {reason}; give --limit instead")
            trials = _run_trials(workload, experiment, execution, wanted, progress)
            trial_costs = [trial_run.cost for trial_run in trials]
            sample = choose_sample(trial_costs, workload, experiment, execution, _elapsed_seconds(begun))
        save_sample(execution.output, sample)
        progress.note(sample.sentence)
    else:
        progress.note(f"--budget {sample.budget}: {sample.limit:,} of {sample.of:,} {sample.unit}, as before")
    return with_limit(experiment, sample.limit), dataclasses.replace(execution, chosen=sample.data)


def _elapsed_seconds(start: float) -> float:
    """Return the seconds since a moment by `time.monotonic`."""
    return time.monotonic() - start


def _existing_folder(output: Path) -> Path:
    """Return the folder of finished tables, also of an address."""
    try:
        return fetch_folder(output)
    except InputError:
        # Nothing has begun there.
        return output


def _read_workload(
    experiment: Experiment, execution: Execution, folder: Path, progress: Progress
) -> Workload:
    trial_execution = dataclasses.replace(execution, output=folder, budget="", chosen=None, merges="")
    return Workload.build(experiment, trial_execution, progress)


def _no_trial_reason(workload: Workload) -> str:
    """Return the reason to run no trial; empty to run some."""
    if not workload.servers:
        return ""
    return f"{workload.servers[0]} is behind a server, and a warm-up would cost tokens there"


def _run_trials(
    workload: Workload,
    experiment: Experiment,
    execution: Execution,
    outputs: OutputOptions,
    progress: Progress,
) -> list[TrialRun]:
    """Run an experiment on a few items, and once more on as many as there is time for.

    Raises:
        SondeError: Not even the run itself can be carried out.
    """

    def measure(limit: int) -> TrialRun:
        trial = run_trial(with_limit(experiment, limit), execution, outputs)
        progress.note(
            f"warm-up with {limit:,} {workload.unit}: {duration(trial.cost.total)} "
            f"({duration(trial.cost.processor_seconds)} of processor time)"
        )
        return trial

    maximum = workload.effective_limit
    from_datasets = any(uses_datasets(lens_input.lens) for lens_input in workload.readings)
    limit = min(FIRST_DATASET_LIMIT if from_datasets else FIRST_LIMIT, maximum)
    while True:
        try:
            first = measure(limit)
            break
        except (InputError, UsageError):
            if limit == maximum:
                raise
            limit = min(_LARGER * limit, maximum)
    limit = _second_limit(first.cost, maximum, execution.budget)
    return [first, measure(limit)] if limit else [first]


def _second_limit(first: RunCost, maximum: int, budget: str) -> int:
    """Return the limit of a second trial; 0 for none."""
    room = parse_duration(budget, "--budget") if budget else math.inf
    if first.amount.limit == maximum or first.total >= room:
        return 0
    growing_seconds = sum(seconds for stage, seconds in first.seconds.items() if stage not in _CONSTANT)
    minimum_step, maximum_step = _STEPS
    step = (_BUDGET_SHARE * room if budget else _PLAN_SECONDS) / max(growing_seconds, 1e-9)
    return min(maximum, round(first.amount.limit * min(max(minimum_step, step), maximum_step)))
