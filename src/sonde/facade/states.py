"""Where a run keeps the states of a task: the probe lens's observations beside its data sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError, UnknownNameError
from sonde.experiments.labels import label_path
from sonde.experiments.plan import group_prefix
from sonde.lenses import LensSettings
from sonde.lenses.probe.states import LayerStates, layer_states
from sonde.report import ModelInfo, RunData
from sonde.tasks import TASKS

_LENS = "probe"


def probe_states(run: RunData, model: ModelInfo, task: str, layer: int, pooling: str | None) -> LayerStates:
    """States of a task's examples over all corpora and languages of a run; see `sonde.Run.states`."""
    lens = next((one for one in run.summary.get("lenses") or () if one["name"] == _LENS), None)
    observations = run.table(_LENS, model)
    if lens is None or observations is None:
        raise InputError(f"{run.directory.root}: no states; run the lens {_LENS!r} for {model.name!r}")
    public = {TASKS.public(name) for name in lens["tasks"]}
    if task not in public:
        raise UnknownNameError(f"task of the lens {_LENS!r} in this run", task, public)
    found = [
        _with_place(
            layer_states(
                observations,
                pl.read_parquet(path),
                task,
                layer=layer,
                pooling=pooling,
                language=group["language"],
                settings=_settings(lens),
            ),
            group,
        )
        for group in run.summary.get("corpus") or ()
        if (path := run.directory.root / label_path(task, _prefix(group))).is_file()
    ]
    if not found:
        raise InputError(f"task {task!r} has no data set in {run.directory.root}; its page says why")
    return LayerStates(
        np.concatenate([one.values for one in found]),
        pl.concat([one.examples for one in found]),
        found[0].pooling,
    )


def _prefix(group: Mapping[str, Any]) -> str:
    return group_prefix(group["name"], group["language"])


def _with_place(states: LayerStates, group: Mapping[str, Any]) -> LayerStates:
    place = pl.lit(group["name"]).alias("corpus"), pl.lit(group["language"]).alias("language")
    return dataclasses.replace(states, examples=states.examples.with_columns(place))


def _settings(lens: Mapping[str, Any]) -> LensSettings:
    """The settings of a lens as ``run.json`` holds them."""
    return LensSettings(
        mode=lens["mode"],
        quirks=frozenset(lens["quirks"]),
        options=dict(lens["options"]),
        seed=lens["seed"],
    )
