"""Where a run keeps the states of a task: the probe lens's observations beside its data sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError, UnknownNameError
from sonde.experiments.plan import group_prefix
from sonde.lenses import LensSettings
from sonde.lenses.probe.states import LayerStates, ProbedExamples
from sonde.models import FAMILIES, split_family
from sonde.report import ModelInfo, RunData
from sonde.results.columns import scan_files
from sonde.store.rundir import label_path
from sonde.tasks import TASKS

PROBING = "probe"
"""The lens that stores states."""


@dataclass(frozen=True, slots=True)
class ProbedGroup:
    """The examples of a task in one corpus and language of a run.

    Attributes:
        corpus: As named by the user.
        corpus_hash: Hash of its files.
        language: Of the examples.
        probed: The examples and where their states are.
        capture: How the texts were read, as ``run.json`` has it.
        settings: Those of the lens in the run.
    """

    corpus: str
    corpus_hash: str
    language: str
    probed: ProbedExamples
    capture: Mapping[str, Any]
    settings: LensSettings


def check_families(run: RunData, named: str | None) -> None:
    """Refuse a model family that a run names by its file, unless the user named the model.

    Raises:
        InputError: The run names code that nobody here handed in.
    """
    for one in run.models:
        if one.name != named and (file := split_family(one.name)[0]):
            FAMILIES.check_recorded(file, run.directory.root)


def probed_tasks(run: RunData) -> tuple[str, ...]:
    """Tasks of the probe lens of a run that have a data set, in its order."""
    lens = _lens(run)
    named = [TASKS.public(name) for name in lens["tasks"]] if lens else []
    groups = run.summary.get("corpus") or ()
    return tuple(
        task for task in named if any(run.directory.holds(_labels(run, group, task)) for group in groups)
    )


def probed_groups(run: RunData, model: ModelInfo, task: str) -> tuple[ProbedGroup, ...]:
    """The examples of a task by corpus and language.

    Raises:
        UnknownNameError: The run has no such task.
        InputError: The probe lens was not run for the model, or the task has no data set.
    """
    lens, observations = _lens(run), run.table(PROBING, model)
    if lens is None or observations is None:
        raise InputError(f"{run.directory.root}: no states; run the lens {PROBING!r} for {model.name!r}")
    public = {TASKS.public(name) for name in lens["tasks"]}
    if task not in public:
        raise UnknownNameError(f"task of the lens {PROBING!r} in this run", task, public)
    settings = LensSettings(
        mode=lens["mode"],
        quirks=frozenset(lens["quirks"]),
        options=dict(lens["options"]),
        seed=lens["seed"],
    )
    found = [
        ProbedGroup(
            group["name"],
            group["hash"],
            group["language"],
            ProbedExamples.of(observations, scan_files(path).collect(), task, group["language"], settings),
            lens.get("capture") or {},
            settings,
        )
        for group in run.summary.get("corpus") or ()
        if run.directory.holds(path := _labels(run, group, task))
    ]
    if not found:
        raise InputError(f"task {task!r} has no data set in {run.directory.root}; its page says why")
    return tuple(found)


def probe_states(run: RunData, model: ModelInfo, task: str, layer: int, pooling: str | None) -> LayerStates:
    """States of a task's examples over all corpora and languages of a run; see `sonde.Run.states`."""
    found: list[LayerStates] = []
    for group in probed_groups(run, model, task):
        states, _ = group.probed.at(layer, pooling)
        place = pl.lit(group.corpus).alias("corpus"), pl.lit(group.language).alias("language")
        found.append(dataclasses.replace(states, examples=states.examples.with_columns(place)))
    return LayerStates(
        np.concatenate([one.values for one in found]),
        pl.concat([one.examples for one in found]),
        found[0].pooling,
    )


def layers_of(run: RunData, model: ModelInfo) -> int:
    """How many layers the states of a model have, the embeddings among them.

    Raises:
        InputError: The probe lens was not run, or observed nothing.
    """
    observations = run.table(PROBING, model)
    first = None if observations is None else observations.select("scale").head(1).collect()
    if first is None or first.is_empty():
        raise InputError(f"{run.directory.root}: no states; run the lens {PROBING!r} for {model.name!r}")
    return len(first["scale"][0])


def _lens(run: RunData) -> Mapping[str, Any] | None:
    """What ``run.json`` says of the lens that stores states."""
    return next((one for one in run.summary.get("lenses") or () if one["name"] == PROBING), None)


def _labels(run: RunData, group: Mapping[str, Any], task: str) -> Path:
    """The data set of a task in one corpus and language."""
    of = str((_lens(run) or {}).get("labels") or "")
    return run.directory.root / label_path(task, group_prefix(group["name"], group["language"]), of)
