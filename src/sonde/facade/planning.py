"""``sonde run --plan`` and ``--budget``: what a run costs and can show, before it begins."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.times import seconds_of
from sonde.experiments import Execution, Experiment, Progress, Silent
from sonde.experiments._forecast import duration
from sonde.experiments.budget import (
    Chosen,
    choose,
    chosen_before,
    refuse_what_has_no_sample,
    remember,
    taking,
    told,
)
from sonde.experiments.choices import draws
from sonde.experiments.costs import FEWEST, FEWEST_DRAWN, RunCost, WarmUp, expected, rounded, warm_up
from sonde.experiments.outlook import Outlook
from sonde.experiments.shows import ASSUMED, Shows, shows
from sonde.facade.after_scores import Wanted
from sonde.facade.training_memory import memory_of
from sonde.facade.warming import Warmed, warmed
from sonde.store.remote import fetched

ALLOWANCE = 120.0
"""Seconds that the warm-ups of a plan may take, apart from the first two."""

_SHARE = 0.25
"""Of a budget this much may go to warm-ups, apart from the first two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """What a run costs and can show.

    Attributes:
        folder: Where it would lie.
        limit: Items a task and language that it takes.
        unit: What these are, in the plural.
        jobs: Observations and trainings.
        trainings: Trainings among them.
        jobs_there: Those whose tables the folder holds already.
        inputs: Distinct texts that are read.
        characters: Their characters.
        tokens: Subwords that jobs read of texts as they are; None where a server cuts them.
        cost: What it is expected to take from nothing; None where there was no warm-up.
        warm_ups: What was measured for that.
        shows: What the sample can show.
        why_no_cost: Why there was no warm-up; empty where there was one.
        chosen: What a budget came to; None without one.
        training: What trainings of models take of memory; see `sonde.facade.training_memory.memory_of`.
    """

    folder: Path
    limit: int
    unit: str
    jobs: int
    trainings: int
    jobs_there: int
    inputs: int
    characters: int
    tokens: int | None
    cost: RunCost | None
    warm_ups: tuple[RunCost, ...]
    shows: tuple[Shows, ...]
    why_no_cost: str = ""
    chosen: Chosen | None = None
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
            "jobs_there": self.jobs_there,
            "inputs": self.inputs,
            "characters": self.characters,
            "tokens": self.tokens,
            "cost": rounded(self.cost) if self.cost else None,
            "why_no_cost": self.why_no_cost,
            "warm_ups": [rounded(one) for one in self.warm_ups],
            "shows": [dataclasses.asdict(one) for one in self.shows],
            "assumed": ASSUMED,
            "budget": told(self.chosen) if self.chosen else None,
            "training": [dict(one) for one in self.training],
        }


def plan(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: Wanted | None = None,
    trial: bool = True,
    progress: Progress | None = None,
) -> CostPlan:
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
    begun, progress, wanted = time.monotonic(), progress or Silent(), wanted or Wanted()
    if execution.budget:
        refuse_what_has_no_sample(experiment, execution)
        if not trial:
            raise UsageError(
                f"--budget {execution.budget} needs to know how fast the run is; leave out --no-trial"
            )
    with tempfile.TemporaryDirectory(prefix="sonde-plan-") as folder:
        outlook = _read(experiment, execution, Path(folder), progress)
        tries = _Tries(experiment, execution, wanted, outlook, progress)
        why = _why_no_trial(outlook, trial)
        done = tries.warm_up(execution, ALLOWANCE) if not why else WarmUp()
        chosen = None
        if execution.budget:
            chosen = chosen_before(_there(execution.output), experiment, execution)
            chosen = chosen or _choose(outlook, done, experiment, execution, _passed(begun))
            outlook = _read(taking(experiment, chosen), execution, Path(folder) / "chosen", progress)
        amount = outlook.amount(outlook.wanted)
        last = tries.last
        return CostPlan(
            folder=execution.output,
            limit=outlook.wanted,
            unit=outlook.unit,
            jobs=len(outlook.plan.jobs) + len(outlook.plan.trainings),
            trainings=len(outlook.plan.trainings),
            jobs_there=outlook.jobs_there(_there(execution.output)),
            inputs=amount.inputs,
            characters=amount.characters,
            tokens=outlook.subwords(),
            cost=expected(done.measured, amount) if done.measured else None,
            warm_ups=done.measured,
            shows=tuple(
                shows(last.answers, last.clusterings, outlook.clusterings())
                if last
                else shows((), {}, outlook.clusterings())
            ),
            why_no_cost=why,
            chosen=chosen,
            training=memory_of(outlook.plan.trainings),
        )


def within_budget(
    experiment: Experiment,
    execution: Execution,
    *,
    wanted: Wanted | None = None,
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
    progress, wanted = progress or Silent(), wanted or Wanted()
    refuse_what_has_no_sample(experiment, execution)
    chosen = chosen_before(execution.output, experiment, execution)
    if chosen is None:
        with tempfile.TemporaryDirectory(prefix="sonde-budget-") as folder:
            outlook = _read(experiment, execution, Path(folder), progress)
            if why := _why_no_trial(outlook, trial=True):
                raise UsageError(f"--budget {execution.budget}: {why}; give --limit instead")
            tries = _Tries(experiment, execution, wanted, outlook, progress)
            budget = seconds_of(execution.budget, "--budget")
            done = tries.warm_up(execution, _SHARE * budget, most=budget)
            chosen = _choose(outlook, done, experiment, execution, _passed(begun))
        remember(execution.output, chosen)
        progress.note(chosen.sentence)
    else:
        progress.note(f"--budget {chosen.budget}: {chosen.limit:,} of {chosen.of:,} {chosen.unit}, as before")
    return taking(experiment, chosen), dataclasses.replace(execution, chosen=told(chosen))


def _passed(begun: float) -> float:
    """Seconds since a moment by `time.monotonic`."""
    return time.monotonic() - begun


def _there(output: Path) -> Path:
    """The folder of what a run has finished already, also at an address."""
    try:
        return fetched(output)
    except InputError:
        # Nothing has begun there.
        return output


def _read(experiment: Experiment, execution: Execution, folder: Path, progress: Progress) -> Outlook:
    inside = dataclasses.replace(execution, output=folder, budget="", chosen=None, merges="")
    return Outlook.of(experiment, inside, progress)


def _why_no_trial(outlook: Outlook, trial: bool) -> str:
    if not trial:
        return "no warm-up was wanted (--no-trial)"
    if outlook.servers:
        return f"{outlook.servers[0]} is behind a server, and a warm-up would cost tokens there"
    return ""


def _choose(
    outlook: Outlook, done: WarmUp, experiment: Experiment, execution: Execution, passed: float
) -> Chosen:
    return choose(
        done.measured,
        outlook.amount,
        outlook.wanted,
        execution=execution,
        passed=passed,
        experiment=experiment,
        unit=outlook.unit,
    )


class _Tries:
    """Warm-ups of a run; what the last of them found is kept."""

    def __init__(
        self,
        experiment: Experiment,
        execution: Execution,
        wanted: Wanted,
        outlook: Outlook,
        progress: Progress,
    ) -> None:
        self._experiment, self._execution, self._wanted = experiment, execution, wanted
        self._outlook, self._progress = outlook, progress
        self.last: Warmed | None = None

    def warm_up(self, execution: Execution, allowance: float, most: float = float("inf")) -> WarmUp:
        """Carry the run out on a few items, and on more as long as it is worth its time."""
        drawn = any(draws(reading.lens) for reading in self._outlook.readings)
        first = FEWEST_DRAWN if drawn else FEWEST
        return warm_up(self._measured, self._outlook.wanted, allowance, first=first, most=most)

    def _measured(self, limit: int) -> RunCost:
        selection = dataclasses.replace(self._experiment.selection, limit=limit)
        some = dataclasses.replace(self._experiment, selection=selection)
        longest = () if self._execution.budget else self._outlook.longest()
        self.last = warmed(some, self._execution, self._wanted, longest)
        cost = self.last.cost
        self._progress.note(
            f"warm-up with {limit:,} {self._outlook.unit}: {duration(cost.total)} "
            f"({duration(cost.worked)} of processor time)"
        )
        return cost
