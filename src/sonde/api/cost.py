"""Cost and power of a run before it begins: ``sonde run --plan`` and ``--budget``.

Cost is measured by trial runs on a few items. Each trial is a process of its own, so that its time and memory
are those of a whole command. The memory of model trainings is estimated before any weight is read.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from sonde.api.outputs import OutputOptions, write_outputs
from sonde.base.errors import InputError, SondeError, UsageError
from sonde.base.formatting import duration
from sonde.base.options import parse_duration
from sonde.base.process import measure_peak_memory, safe_path_environment
from sonde.base.progress import NullProgress, Progress
from sonde.experiments import Execution, Experiment
from sonde.experiments.cost import (
    FEWEST,
    FEWEST_DRAWN,
    OTHER,
    PAGE,
    START,
    BudgetedSample,
    RunCost,
    TrialCosts,
    check_sampling_possible,
    choose_sample,
    extrapolate_cost,
    load_sample,
    measure_trials,
    round_cost,
    sample_to_dict,
    save_sample,
    with_limit,
)
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.observe import time_job
from sonde.experiments.plan import ObserveJob, TrainJob
from sonde.experiments.progress import processor_time
from sonde.experiments.resolve import uses_datasets
from sonde.experiments.run import run
from sonde.experiments.workload import (
    ASSUMED,
    DetectableEffect,
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
from sonde.store.parts import SIZE_ENV, PartStore
from sonde.store.remote import fetch_folder

_BETWEEN_LOOKS = 0.2
"""Seconds from one look at the memory of all processes to the next, which itself takes some milliseconds."""


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


def run_trial(
    experiment: Experiment, execution: Execution, wanted: OutputOptions, longest: Sequence[ObserveJob] = ()
) -> TrialRun:
    """Carry an experiment out in a process of its own, and keep nothing of it but what it took.

    Args:
        experiment: With the limit that is tried.
        execution: How; the folder is another.
        wanted: What is written when the scores are there.
        longest: Inputs that are read as well when all is done, for the memory that they need; their time does
            not count.

    Raises:
        SondeError: The run failed, or its process died.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="sonde-warm-up-") as folder:
        inside = dataclasses.replace(
            execution, output=Path(folder) / "run", budget="", chosen=None, shard="", merges=""
        )
        receiver, sender = context.Pipe(duplex=False)
        begun = time.monotonic()
        with safe_path_environment():
            child = context.Process(
                target=_run_in_process, args=(sender, experiment, inside, wanted, tuple(longest), begun)
            )
            child.start()
        sender.close()
        try:
            told, memory = _watch_process(child.pid, receiver)
        finally:
            child.join()
            receiver.close()
    if isinstance(told, SondeError):
        raise told
    if told is None:
        raise SondeError(
            f"the warm-up with {experiment.selection.limit} items a task and language died (out of memory?); "
            "a smaller --batch-tokens or fewer --workers take less"
        )
    cost = dataclasses.replace(told.cost, memory=max(memory, told.cost.memory))
    return dataclasses.replace(told, cost=cost)


def _watch_process(process: int | None, receiver: Any) -> tuple[Any, int]:
    """What a process says at its end, and the bytes that it and its children held at most at one time."""
    told: Any = None
    most = 0
    while True:
        most = max(most, _resident_bytes(process))
        if receiver.poll(_BETWEEN_LOOKS):
            try:
                told = receiver.recv()
            except EOFError:
                return told, most


def _resident_bytes(process: int | None) -> int:
    """Resident bytes of a process and all below it."""
    try:
        top = psutil.Process(process)
        family = [top, *top.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for one in family:
        try:
            total += one.memory_info().rss
        except psutil.Error:
            continue
    return total


def _run_in_process(
    sender: Connection,
    experiment: Experiment,
    execution: Execution,
    wanted: OutputOptions,
    longest: Sequence[ObserveJob],
    begun: float,
) -> None:
    """The process: a run from its start to its page."""
    start, used = time.monotonic() - begun, processor_time()
    # What another run has read is not read again, and would cost nothing here.
    os.environ[SIZE_ENV] = "0"
    sys.stdout = sys.stderr
    try:
        outcome = run(experiment, execution, NullProgress())
        scored, used_by_scores = time.monotonic(), processor_time()
        folder = outcome.directory
        write_outputs(wanted, outcome, folder.root, NullProgress())
        page = folder.report.stat().st_size if folder.report.is_file() else 0
        ended, used_by_all = time.monotonic(), processor_time()
        stages = {START: start, **outcome.seconds, PAGE: ended - scored}
        processor = {START: used, **outcome.processor, PAGE: used_by_all - used_by_scores}
        stages[OTHER] = max(0.0, ended - begun - sum(stages.values()))
        processor[OTHER] = max(0.0, used_by_all - sum(processor.values()))
        summary = folder.read_summary()
        amount = measure_amount(experiment.selection.limit or 0, outcome.readings)
        answers = [(one.row, one.gain) for one in answer_by_task(RunData(folder.root))]
        for job in longest:
            time_job(dataclasses.replace(job, batch_tokens=execution.batch_tokens or 0))
        sender.send(
            TrialRun(
                cost=RunCost(
                    amount=amount,
                    seconds=stages,
                    processor=processor,
                    memory=measure_peak_memory(),
                    device_memory=_peak_device_bytes(),
                    disk=_folder_bytes(folder.root) - page,
                    page=page,
                    forwards=int(summary["forwards"].get("run", 0)),
                ),
                answers=answers,
                clusterings=find_cluster_designs(outcome.readings, PartStore(folder.root)),
            )
        )
    except SondeError as error:
        sender.send(error)
    except Exception as error:
        sender.send(SondeError(f"the warm-up failed: {type(error).__name__}: {error}"))
    finally:
        sender.close()


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _peak_device_bytes() -> int | None:
    """Bytes that this process held on accelerators at most; None where it has used none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return sum(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count()))


def estimate_training_memory(jobs: Iterable[TrainJob]) -> tuple[Mapping[str, Any], ...]:
    """An entry a model and way of training: ``model, how, total, weights, moving, states, examples, length``.

    Args:
        jobs: Trainings; those of models count, baselines are small.
    """
    from sonde.models import resolve_auto
    from sonde.training.finetune.memory import estimate_memory
    from sonde.training.precision import uses_bfloat16

    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
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

        half = uses_bfloat16(recipe.precision, torch.device(spec.device))
        one = estimate_memory(spec, recipe, half=half)
        how = f"LoRA of rank {recipe.lora_rank}" if recipe.lora_rank else "all weights"
        how = "the head alone" if recipe.frozen else how
        key = (spec.name, how, one, recipe.length)
        found[key] = {
            "model": spec.name,
            "how": how,
            "length": recipe.length,
            **dataclasses.asdict(one),
            "total": one.total,
        }
    return tuple(found.values())


ALLOWANCE = 120.0
"""Seconds that the warm-ups of a plan may take, apart from the first two."""


_SHARE = 0.25
"""Of a budget this much may go to warm-ups, apart from the first two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What a run costs and can show.

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
        """The plan as plain data."""
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
            "cost": round_cost(self.cost) if self.cost else None,
            "why_no_cost": self.why_no_cost,
            "warm_ups": [round_cost(one) for one in self.warm_ups],
            "shows": [dataclasses.asdict(one) for one in self.shows],
            "assumed": ASSUMED,
            "budget": sample_to_dict(self.chosen) if self.chosen else None,
            "training": [dict(one) for one in self.training],
        }


def estimate_cost(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: OutputOptions | None = None,
    trial: bool = True,
    progress: Progress | None = None,
) -> CostEstimate:
    """What a run costs and can show; nothing of it is kept.

    Args:
        experiment: What would be measured.
        execution: How and where; with a budget, the plan is that of the sample that it allows.
        wanted: What would be written when the scores are there.
        trial: Whether the run is carried out on a few items, which loads its models, to know time and memory.
        progress: Is told what goes on.

    Raises:
        SondeError: As for the run: what cannot be run cannot be planned.
    """
    begun, progress, wanted = time.monotonic(), progress or NullProgress(), wanted or OutputOptions()
    if execution.budget:
        check_sampling_possible(experiment, execution)
        if not trial:
            raise UsageError(
                f"--budget {execution.budget} needs to know how fast the run is; leave out --no-trial"
            )
    with tempfile.TemporaryDirectory(prefix="sonde-plan-") as folder:
        outlook = _read_workload(experiment, execution, Path(folder), progress)
        tries = _Trials(experiment, execution, wanted, outlook, progress)
        why = _no_trial_reason(outlook, trial)
        done = tries.run_all(execution, ALLOWANCE) if not why else TrialCosts()
        chosen = None
        if execution.budget:
            chosen = load_sample(_existing_folder(execution.output), experiment, execution)
            chosen = chosen or _choose_sample(outlook, done, experiment, execution, _elapsed_seconds(begun))
            outlook = _read_workload(
                with_limit(experiment, chosen), execution, Path(folder) / "chosen", progress
            )
        amount = outlook.amount(outlook.effective_limit)
        last = tries.last
        return CostEstimate(
            folder=execution.output,
            limit=outlook.effective_limit,
            unit=outlook.unit,
            jobs=len(outlook.plan.jobs) + len(outlook.plan.trainings),
            trainings=len(outlook.plan.trainings),
            finished_jobs=outlook.finished_jobs(_existing_folder(execution.output)),
            inputs=amount.inputs,
            characters=amount.characters,
            tokens=outlook.subwords(),
            cost=extrapolate_cost(done.measured, amount) if done.measured else None,
            warm_ups=done.measured,
            shows=tuple(
                compute_detectable_effects(last.answers, last.clusterings, outlook.clusterings())
                if last
                else compute_detectable_effects((), {}, outlook.clusterings())
            ),
            why_no_cost=why,
            chosen=chosen,
            training=estimate_training_memory(outlook.plan.trainings),
        )


def fit_to_budget(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: OutputOptions | None = None,
    begun: float | None = None,
    progress: Progress | None = None,
) -> tuple[Experiment, Execution]:
    """The experiment on the largest sample whose expected time fits into the budget of its execution.

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
    chosen = load_sample(execution.output, experiment, execution)
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="sonde-budget-") as folder:
            outlook = _read_workload(experiment, execution, Path(folder), progress)
            if why := _no_trial_reason(outlook, trial=True):
                raise UsageError(f"--budget {execution.budget}: {why}; give --limit instead")
            tries = _Trials(experiment, execution, wanted, outlook, progress)
            budget = parse_duration(execution.budget, "--budget")
            done = tries.run_all(execution, _SHARE * budget, most=budget)
            chosen = _choose_sample(outlook, done, experiment, execution, _elapsed_seconds(begun))
        save_sample(execution.output, chosen)
        progress.note(chosen.sentence)
    else:
        progress.note(f"--budget {chosen.budget}: {chosen.limit:,} of {chosen.of:,} {chosen.unit}, as before")
    return with_limit(experiment, chosen), dataclasses.replace(execution, chosen=sample_to_dict(chosen))


def _elapsed_seconds(begun: float) -> float:
    """Seconds since a moment by `time.monotonic`."""
    return time.monotonic() - begun


def _existing_folder(output: Path) -> Path:
    """The folder of what a run has finished already, also at an address."""
    try:
        return fetch_folder(output)
    except InputError:
        # Nothing has begun there.
        return output


def _read_workload(
    experiment: Experiment, execution: Execution, folder: Path, progress: Progress
) -> Workload:
    inside = dataclasses.replace(execution, output=folder, budget="", chosen=None, merges="")
    return Workload.build(experiment, inside, progress)


def _no_trial_reason(outlook: Workload, trial: bool) -> str:
    if not trial:
        return "no warm-up was wanted (--no-trial)"
    if outlook.servers:
        return f"{outlook.servers[0]} is behind a server, and a warm-up would cost tokens there"
    return ""


def _choose_sample(
    outlook: Workload, done: TrialCosts, experiment: Experiment, execution: Execution, passed: float
) -> BudgetedSample:
    return choose_sample(
        done.measured,
        outlook.amount,
        outlook.effective_limit,
        execution=execution,
        passed=passed,
        experiment=experiment,
        unit=outlook.unit,
    )


class _Trials:
    """Warm-ups of a run; what the last of them found is kept."""

    def __init__(
        self,
        experiment: Experiment,
        execution: Execution,
        wanted: OutputOptions,
        outlook: Workload,
        progress: Progress,
    ) -> None:
        self._experiment, self._execution, self._wanted = experiment, execution, wanted
        self._outlook, self._progress = outlook, progress
        self.last: TrialRun | None = None

    def run_all(self, execution: Execution, allowance: float, most: float = float("inf")) -> TrialCosts:
        """Carry the run out on a few items, and on more as long as it is worth its time."""
        drawn = any(uses_datasets(reading.lens) for reading in self._outlook.readings)
        first = FEWEST_DRAWN if drawn else FEWEST
        return measure_trials(self._measure, self._outlook.effective_limit, allowance, first=first, most=most)

    def _measure(self, limit: int) -> RunCost:
        selection = dataclasses.replace(self._experiment.selection, limit=limit)
        some = dataclasses.replace(self._experiment, selection=selection)
        longest = () if self._execution.budget else self._outlook.longest_jobs()
        self.last = run_trial(some, self._execution, self._wanted, longest)
        cost = self.last.cost
        self._progress.note(
            f"warm-up with {limit:,} {self._outlook.unit}: {duration(cost.total)} "
            f"({duration(cost.processor_seconds)} of processor time)"
        )
        return cost
