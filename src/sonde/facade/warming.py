"""A run on a few items in a process of its own, so that time and memory are those of a whole command."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from sonde.base.children import safe_children
from sonde.base.errors import SondeError
from sonde.base.memory import measure_peak_memory
from sonde.experiments import Execution, Experiment
from sonde.experiments._outcome import processor_time
from sonde.experiments._progress import Silent
from sonde.experiments.costs import OTHER, PAGE, START, RunCost
from sonde.experiments.observe import try_job
from sonde.experiments.outlook import Question, amount_read, clusterings
from sonde.experiments.plan import ObserveJob
from sonde.experiments.run import run
from sonde.facade.after_scores import Wanted, write
from sonde.report import RunData, task_answers
from sonde.results.detectable import Clustering
from sonde.store.cache import SIZE
from sonde.store.parts import PartStore

_BETWEEN_LOOKS = 0.2
"""Seconds from one look at the memory of all processes to the next, which itself takes some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmed:
    """A run on a few items.

    Attributes:
        cost: What it took.
        answers: The rows of scores that speak for each lens and task, and the paired difference to the best
            control beside each (None without one).
        clusterings: How its items fell into clusters.
    """

    cost: RunCost
    answers: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    clusterings: Mapping[Question, Clustering]


def warmed(
    experiment: Experiment, execution: Execution, wanted: Wanted, longest: Sequence[ObserveJob] = ()
) -> Warmed:
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
        with safe_children():
            child = context.Process(
                target=_carry_out, args=(sender, experiment, inside, wanted, tuple(longest), begun)
            )
            child.start()
        sender.close()
        try:
            told, memory = _watched(child.pid, receiver)
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


def _watched(process: int | None, receiver: Any) -> tuple[Any, int]:
    """What a process says at its end, and the bytes that it and its children held at most at one time."""
    told: Any = None
    most = 0
    while True:
        most = max(most, _held(process))
        if receiver.poll(_BETWEEN_LOOKS):
            try:
                told = receiver.recv()
            except EOFError:
                return told, most


def _held(process: int | None) -> int:
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


def _carry_out(
    sender: Connection,
    experiment: Experiment,
    execution: Execution,
    wanted: Wanted,
    longest: Sequence[ObserveJob],
    begun: float,
) -> None:
    """The process: a run from its start to its page."""
    start, used = time.monotonic() - begun, processor_time()
    # What another run has read is not read again, and would cost nothing here.
    os.environ[SIZE] = "0"
    sys.stdout = sys.stderr
    try:
        outcome = run(experiment, execution, Silent())
        scored, used_by_scores = time.monotonic(), processor_time()
        folder = outcome.directory
        write(wanted, outcome, folder.root, Silent())
        page = folder.report.stat().st_size if folder.report.is_file() else 0
        ended, used_by_all = time.monotonic(), processor_time()
        stages = {START: start, **outcome.seconds, PAGE: ended - scored}
        processor = {START: used, **outcome.processor, PAGE: used_by_all - used_by_scores}
        stages[OTHER] = max(0.0, ended - begun - sum(stages.values()))
        processor[OTHER] = max(0.0, used_by_all - sum(processor.values()))
        summary = folder.read_summary()
        amount = amount_read(experiment.selection.limit or 0, outcome.readings)
        answers = [(one.row, one.gain) for one in task_answers(RunData(folder.root))]
        for job in longest:
            try_job(dataclasses.replace(job, batch_tokens=execution.batch_tokens or 0))
        sender.send(
            Warmed(
                cost=RunCost(
                    amount=amount,
                    seconds=stages,
                    processor=processor,
                    memory=measure_peak_memory(),
                    device_memory=_on_device(),
                    disk=_size(folder.root) - page,
                    page=page,
                    forwards=int(summary["forwards"].get("run", 0)),
                ),
                answers=answers,
                clusterings=clusterings(outcome.readings, PartStore(folder.root)),
            )
        )
    except SondeError as error:
        sender.send(error)
    except Exception as error:
        sender.send(SondeError(f"the warm-up failed: {type(error).__name__}: {error}"))
    finally:
        sender.close()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _on_device() -> int | None:
    """Bytes that this process held on accelerators at most; None where it has used none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return sum(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count()))
