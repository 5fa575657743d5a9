"""Models of finished runs, and how a comparison pairs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import InputError, UsageError
from sonde.comparison.summary import FEWEST, step_of
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES
from sonde.results.schema import scan_files
from sonde.store.run_folder import RunDirectory, label_path
from sonde.tasks.engine.task import TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """One model of one run.

    Attributes:
        run: The folder of the run.
        summary: Its ``run.json``.
        model: Entry of the model in ``run.json``.
        label: Name of the model in a comparison: with its run where the names of models are the same.
    """

    run: RunDirectory
    summary: Mapping[str, Any]
    model: Mapping[str, Any]
    label: str

    @property
    def name(self) -> str:
        """Return the model's name in its run."""
        return str(self.model["name"])

    def facts(self) -> dict[str, Any]:
        """Return the identifying fields for ``comparison.json``."""
        return {
            "label": self.label,
            "model": self.name,
            "revision": self.model.get("revision") or "",
            "run": self.run.root.resolve().name,
            "fingerprint": self.summary.get("fingerprint") or "",
            "transform": self.transform,
        }

    @property
    def transform(self) -> str:
        """Return the transformation of the run's texts."""
        selection = (self.summary.get("arguments") or {}).get("selection") or {}
        return str(selection.get("transform") or "none")

    def lens(self, name: str) -> Mapping[str, Any] | None:
        """Return the settings of a lens of the run, by public name."""
        return next((one for one in self.summary.get("lenses") or () if one["name"] == name), None)

    def observations(self, lens: str, prefix: str) -> pl.LazyFrame | None:
        """Scan a lens's observations of the model over one corpus and language; None without any."""
        files = self.run.tables(self.run.observations(lens, self.name), prefix)
        return scan_files(files) if files else None

    def labels(self, task: str, prefix: str, lens: str) -> pl.DataFrame | None:
        """Read the labels or data set of a task that a lens uses; None if the run has none."""
        of = str((self.lens(lens) or {}).get("labels") or "")
        path = self.run.root / label_path(task, prefix, of)
        return scan_files([path]).collect() if self.run.holds(path) else None


def sides_of(directories: Sequence[Path]) -> list[tuple[RunModel, RunModel]]:
    """Pair the first model of one run with its others, or the first run's models with those of other runs.

    Of several runs, models of one name are compared with each other; where no two have one, the first models.

    Raises:
        InputError: A folder holds no run.
        UsageError: There is one model only.
    """
    runs = [_models_of(RunDirectory(directory)) for directory in directories]
    first, *others = runs
    if not others:
        base, *rest = first
        if not rest:
            raise UsageError(
                f"{directories[0]}: one model alone; name a second run, or run several models (-m A -m B)"
            )
        return [(base, side) for side in rest]
    pairs: list[tuple[RunModel, RunModel]] = []
    for run in others:
        same = [(base, side) for base in first for side in run if base.name == side.name]
        pairs += same or [(first[0], run[0])]
    return [_apart(base, side) for base, side in pairs]


def _models_of(run: RunDirectory) -> list[RunModel]:
    summary = run.read_summary()
    for lens in summary.get("lenses") or ():
        LENSES.check_recorded(str(lens.get("source")), run.root)
        for task in lens.get("tasks") or ():
            TASKS.check_recorded(str(task), run.root)
    for corpus in summary.get("corpus") or ():
        LANGUAGES.check_recorded(str(corpus.get("language")), run.root)
    models = [one for one in summary.get("models") or () if one.get("name")]
    if not models:
        raise InputError(f"{run.root}: the run names no model")
    return [RunModel(run=run, summary=summary, model=one, label=str(one["name"])) for one in models]


def _apart(base: RunModel, side: RunModel) -> tuple[RunModel, RunModel]:
    """Add the run to both labels if they are the same."""
    if base.label != side.label:
        return base, side
    names = [one.run.root.resolve().name for one in (base, side)]
    if names[0] == names[1]:
        names = [str(one.run.root) for one in (base, side)]
    base, side = (
        dataclasses.replace(one, label=f"{one.label} ({name})")
        for one, name in zip((base, side), names, strict=True)
    )
    return base, side


def checkpoints(directories: Sequence[Path], pattern: str) -> list[tuple[int, RunModel]]:
    """Load the models of all runs whose own name, or whose run's name, contains a training step.

    Args:
        directories: Folders of runs.
        pattern: A regular expression whose one group is the step.

    Returns:
        By step.

    Raises:
        InputError: A folder holds no run.
        UsageError: The expression cannot be used, fewer than three checkpoints fit, or two have one step.
    """
    step = step_of(pattern)
    found: dict[int, RunModel] = {}
    for directory in directories:
        for side in _models_of(RunDirectory(directory)):
            at = step(side.name)
            at = step(directory.resolve().name) if at is None else at
            if at is None:
                continue
            if at in found:
                raise UsageError(
                    f"--series {pattern!r}: {found[at].name} and {side.name} are both of step {at}"
                )
            found[at] = dataclasses.replace(side, label=f"step {at}")
    if len(found) < FEWEST:
        raise UsageError(
            f"--series {pattern!r}: {len(found)} checkpoint(s) fit, a series needs {FEWEST} or more"
        )
    return sorted(found.items())
