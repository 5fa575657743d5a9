"""A time that a run may take: the sample that keeps to it, and what the folder of the run remembers of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import StoreError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.times import seconds_of
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._forecast import duration
from sonde.experiments.costs import Amount, RunCost, expected, largest
from sonde.store.receipts import must_be_intact, write_with_receipt

FILE = "budget.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
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
        >>> Chosen(**chosen, expected_seconds=6_900, warm_up_seconds=60).sentence
        '--budget 2h: 812 of 5,000 functions, expected to take 1.9 h after a warm-up of 60 s'
        """
        taken = f"all {self.of:,}" if self.limit >= self.of else f"{self.limit:,} of {self.of:,}"
        return (
            f"--budget {self.budget}: {taken} {self.unit}, expected to take "
            f"{duration(self.expected_seconds)} after a warm-up of {duration(self.warm_up_seconds)}"
        )


def refuse_what_has_no_sample(experiment: Experiment, execution: Execution) -> None:
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


def choose(
    measured: Sequence[RunCost],
    amount: Callable[[int], Amount],
    wanted: int,
    *,
    execution: Execution,
    passed: float,
    experiment: Experiment,
    unit: str,
) -> Chosen:
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
    left = seconds_of(execution.budget, "--budget") - passed

    def takes(limit: int) -> float:
        # Warm-ups began with a process of their own; this one has begun.
        return expected(measured, amount(limit)).left()

    least = measured[0].amount.limit
    limit = largest(lambda one: takes(one) <= left, least, max(least, wanted))
    if not limit:
        needed = measured[0].total + passed
        raise UsageError(
            f"--budget {execution.budget}: no sample fits; the smallest, {least:,} {unit}, takes "
            f"{duration(measured[0].total)} here and finding that out took {duration(passed)}; give "
            f"{_whole(needed)} or more, or --limit {least}"
        )
    return Chosen(
        budget=execution.budget,
        limit=limit,
        of=max(wanted, limit),
        unit=unit,
        expected_seconds=round(takes(limit), 1),
        warm_up_seconds=round(passed, 1),
        experiment=of_any_sample(experiment),
    )


def _whole(seconds: float) -> str:
    """A budget that is certainly enough, as it is written."""
    return f"{-(-seconds * 1.2 // 60):.0f}m" if seconds > 50 else f"{-(-seconds * 1.2 // 1):.0f}s"


def of_any_sample(experiment: Experiment) -> str:
    """Fingerprint of an experiment."""
    return fingerprint("budget", experiment)


def chosen_before(folder: Path, experiment: Experiment, execution: Execution) -> Chosen | None:
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
    must_be_intact(folder, FILE)
    try:
        held = Chosen(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"{path}: cannot be read ({error}); remove it to have a sample chosen anew"
        ) from error
    same = seconds_of(held.budget, FILE) == seconds_of(execution.budget, "--budget")
    return held if same and held.experiment == of_any_sample(experiment) else None


def remember(folder: Path, chosen: Chosen) -> None:
    """Write a choice into the folder of its run, before the run begins."""
    write_with_receipt(folder, FILE, json.dumps(dataclasses.asdict(chosen), indent=2) + "\n")


def taking(experiment: Experiment, chosen: Chosen) -> Experiment:
    """The experiment on the sample that was chosen."""
    selection = dataclasses.replace(experiment.selection, limit=chosen.limit)
    return dataclasses.replace(experiment, selection=selection)


def told(chosen: Chosen) -> dict[str, Any]:
    """What ``run.json`` says of it."""
    held = dataclasses.asdict(chosen)
    del held["experiment"]
    return held
