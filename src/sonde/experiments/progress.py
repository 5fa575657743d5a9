"""State, outcome and provenance of a run, shared by its stages.

Every stage gets the `Session` and adds to its `Outcome`, which the caller of the run receives. Provenance is
the versions of what can change a number, and the machine that it was computed on.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sonde.base.progress import Progress
from sonde.experiments.experiment import Execution, Experiment, LensChoice
from sonde.experiments.plan import ObserveJob, TrainJob
from sonde.languages import LANGUAGES, get_language_version
from sonde.store.parts import PartStore
from sonde.store.run_folder import RunDirectory
from sonde.tasks import ParallelMap
from sonde.version import __version__

AGAIN = "observe again"
"""Observing in later stages: what a lens looks at more closely once its scores are there."""


@dataclass(frozen=True, slots=True)
class SkippedTask:
    """A task that gave no data set, or a model that a lens cannot read, and why; the others go on."""

    lens: str
    task: str
    language: str
    reason: str
    model: str = ""


@dataclass(slots=True)
class Outcome:
    """Outcome of a run.

    Attributes:
        directory: The folder of the run.
        jobs: The observations that were planned.
        trainings: The trainings that were planned.
        trained: Methods that had to be trained this time.
        observed: Items that needed a forward pass this time.
        reused: Items whose observations were there already.
        cached: Of those, items that another run on this machine had observed.
        scores_key: Key of the scores; it changes when any score can.
        seconds: Time by stage.
        refused: Tasks that gave no data set and models that a lens cannot read, and why.
        data_sets: What each data set says of itself, by lens, group and task.
        budget: What the budget came to; empty without one.
        damaged: Parts that were found damaged and computed again.
        files: A line about each file that a lens wrote beside the tables.
    """

    directory: RunDirectory
    jobs: tuple[ObserveJob, ...] = ()
    trainings: tuple[TrainJob, ...] = ()
    trained: int = 0
    observed: int = 0
    reused: int = 0
    cached: int = 0
    scores_key: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    refused: list[SkippedTask] = field(default_factory=list[SkippedTask])
    data_sets: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    budget: Mapping[str, Any] = field(default_factory=dict[str, Any])
    damaged: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])

    @contextmanager
    def measure_stage(self, stage: str) -> Generator[None]:
        """Measure a stage."""
        begin = time.monotonic()
        yield
        self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.monotonic() - begin, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A run in progress, as every stage gets it.

    Attributes:
        experiment: What is measured.
        execution: How and where.
        progress: Is told how far the run is.
        lenses: The lenses, resolved.
        models: Names of the models that each lens reads, by lens.
        outcome: What the run did so far; each stage adds to it.
        store: Keeps the tables of the run.
    """

    experiment: Experiment
    execution: Execution
    progress: Progress
    lenses: tuple[LensChoice, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    outcome: Outcome = field(init=False)
    store: PartStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", Outcome(RunDirectory(self.execution.output)))
        object.__setattr__(self, "store", PartStore(self.execution.output))

    @property
    def spread(self) -> ParallelMap:
        """Return where labels are made: on the executor of the run."""
        return ParallelMap(executor=self.execution.executor, workers=self.execution.light_workers)


_COMPUTING = ("torch", "transformers", "tokenizers", "tree-sitter")


_SCORING = ("polars", "numpy", "scipy")


def list_versions() -> dict[str, str]:
    """List versions of sonde, of the computing libraries, and of each language's grammar and rules."""
    versions = {"sonde": __version__, "python": platform.python_version()}
    versions |= {name: _find_version(name) for name in (*_COMPUTING, *_SCORING)}
    return versions | {f"language {name}": get_language_version(name) for name in LANGUAGES.names()}


def list_computing_versions(language: str) -> dict[str, str]:
    """List the versions that an observation in one language depends on."""
    return {name: _find_version(name) for name in _COMPUTING} | {"language": get_language_version(language)}


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def describe_hardware() -> dict[str, str | int]:
    """Describe the machine: architecture, cores, system. No host name, no user name."""
    return {
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  a device file, not a path of ours
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
