"""Hidden states of a run: where they are stored, and their export to safetensors.

The states of a task are the probe lens's observations, stored next to its data sets. The exported files can
be read by other programs: safetensors with the states, next to a table of the examples.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError, StoreError, UnknownNameError, UsageError
from sonde.base.progress import Progress
from sonde.experiments import Experiment
from sonde.lenses import LensSettings
from sonde.lenses.probe.data import LayerStates, ProbedExamples
from sonde.models import split_family
from sonde.models.engine.family import FAMILIES
from sonde.report import ModelInfo, RunData
from sonde.results.schema import scan_files
from sonde.store.run_folder import group_prefix, label_path
from sonde.tasks.engine.task import TASKS

PROBE_LENS = "probe"
"""The lens that stores states."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """The examples of a task in one corpus and language of a run.

    Attributes:
        corpus: As named by the user.
        corpus_hash: Hash of its files.
        language: Of the examples.
        probe_examples: The examples and where their states are.
        capture: How the texts were read, as ``run.json`` has it.
        settings: Those of the lens in the run.
    """

    corpus: str
    corpus_hash: str
    language: str
    probe_examples: ProbedExamples
    capture: Mapping[str, Any]
    settings: LensSettings


def select_name(kind: str, name: str | None, names: Sequence[str], flag: str = "") -> str:
    """Return `name`, or the only one of `names`.

    Args:
        kind: What is named, for messages.
        name: What a user named; None for the only one.
        names: All that there are in the run.
        flag: The flag that names one, if the command line asks.

    Raises:
        UsageError: None is named, and there are several.
        UnknownNameError: There is no such name; suggests the nearest.
    """
    if name is None:
        if len(names) > 1:
            hint = f" with {flag}" if flag else ""
            raise UsageError(f"the run has several {kind}s; name one{hint}: {', '.join(names)}")
        return names[0]
    if name not in names:
        raise UnknownNameError(f"{kind} of this run", name, names)
    return name


def check_model_families(run: RunData, model_name: str | None) -> None:
    """Refuse a model family that a run names by its file, unless the user named the model.

    Raises:
        InputError: The run names code that nobody here handed in.
    """
    for model in run.models:
        if model.name != model_name and (file := split_family(model.name)[0]):
            FAMILIES.check_recorded_name(file, run.directory.root)


def find_probe_tasks(run: RunData) -> tuple[str, ...]:
    """Return the tasks of the probe lens of a run that have a data set, in its order."""
    lens = _find_probe_lens(run)
    tasks = [TASKS.public(name) for name in lens["tasks"]] if lens else []
    groups = run.summary.get("corpus") or ()
    return tuple(
        task
        for task in tasks
        if any(run.directory.holds(_locate_dataset(run, group, task)) for group in groups)
    )


def find_probe_targets(run: RunData, model: ModelInfo, task: str) -> tuple[ProbeTarget, ...]:
    """Return the examples of a task by corpus and language.

    Raises:
        UnknownNameError: The run has no such task.
        InputError: The probe lens was not run for the model, or the task has no data set.
    """
    lens, observations = _find_probe_lens(run), run.table(PROBE_LENS, model)
    if lens is None or observations is None:
        raise InputError(f"{run.directory.root}: no states; run the lens {PROBE_LENS!r} for {model.name!r}")
    public = {TASKS.public(name) for name in lens["tasks"]}
    if task not in public:
        raise UnknownNameError(f"task of the lens {PROBE_LENS!r} in this run", task, public)
    settings = LensSettings(
        mode=lens["mode"],
        quirks=frozenset(lens["quirks"]),
        options=dict(lens["options"]),
        seed=lens["seed"],
    )
    targets = [
        ProbeTarget(
            group["name"],
            group["hash"],
            group["language"],
            ProbedExamples.from_labels(
                observations, scan_files(path).collect(), task, group["language"], settings
            ),
            lens.get("capture") or {},
            settings,
        )
        for group in run.summary.get("corpus") or ()
        if run.directory.holds(path := _locate_dataset(run, group, task))
    ]
    if not targets:
        raise InputError(
            f"task {task!r} has no data set in {run.directory.root}; the report of the run explains why"
        )
    return tuple(targets)


def read_probe_states(
    run: RunData, model: ModelInfo, task: str, layer: int, pooling: str | None
) -> LayerStates:
    """Read the states of a task's examples over all corpora and languages; see `sonde.Run.states`."""
    parts: list[LayerStates] = []
    for group in find_probe_targets(run, model, task):
        states, _ = group.probe_examples.at_layer(layer, pooling)
        columns = pl.lit(group.corpus).alias("corpus"), pl.lit(group.language).alias("language")
        parts.append(dataclasses.replace(states, examples=states.examples.with_columns(columns)))
    return LayerStates(
        np.concatenate([part.values for part in parts]),
        pl.concat([part.examples for part in parts]),
        parts[0].pooling,
    )


def count_layers(run: RunData, model: ModelInfo) -> int:
    """Count the layers of the states of a model, the embeddings included.

    Raises:
        InputError: The probe lens was not run, or observed nothing.
    """
    observations = run.table(PROBE_LENS, model)
    first = None if observations is None else observations.select("scale").head(1).collect()
    if first is None or first.is_empty():
        raise InputError(f"{run.directory.root}: no states; run the lens {PROBE_LENS!r} for {model.name!r}")
    return len(first["scale"][0])


def _find_probe_lens(run: RunData) -> Mapping[str, Any] | None:
    """Return the record of the probe lens in ``run.json``."""
    return next((lens for lens in run.summary.get("lenses") or () if lens["name"] == PROBE_LENS), None)


def _locate_dataset(run: RunData, group: Mapping[str, Any], task: str) -> Path:
    """Return the path of the data set of a task in one corpus and language."""
    suffix = str((_find_probe_lens(run) or {}).get("labels") or "")
    return run.directory.root / label_path(task, group_prefix(group["name"], group["language"]), suffix)


_SPLITS = ("train", "valid", "test")
"""Numbers of the splits; the order of the tensor ``split``."""


def write_features(
    run: RunData,
    model: ModelInfo,
    task: str,
    path: Path,
    *,
    layers: Sequence[int] | None = None,
    pooling: str | None = None,
) -> Path:
    """Write the states of a task's examples; one layer at a time is held. See `sonde.Run.write_features`.

    Raises:
        StoreError: The disk is full, or the folder cannot be written.
        SondeError: See `sonde.api.hidden_states.read_probe_states`.
    """
    selected_layers = range(count_layers(run, model)) if layers is None else layers
    first = read_probe_states(run, model, task, selected_layers[0], pooling)
    small = _example_tensors(first)
    shape = first.values.shape
    sizes = {f"layer.{layer}": (np.dtype(np.float32), shape) for layer in selected_layers}
    sizes |= {name: (array.dtype, array.shape) for name, array in small.items()}
    metadata = {
        "model": model.name,
        "task": task,
        "pooling": first.pooling,
        "classes": json.dumps(_list_classes(first)),
        "splits": json.dumps(_SPLITS),
    }

    def tensors() -> Iterator[np.ndarray]:
        yield first.values
        for layer in selected_layers[1:]:
            yield read_probe_states(run, model, task, layer, pooling).values
        yield from small.values()

    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            handle.write(_safetensors_header(sizes, metadata))
            for array in tensors():
                np.ascontiguousarray(array).tofile(handle)
        first.examples.write_parquet(path.with_suffix(".examples.parquet"))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def check_states_available(experiment: Experiment) -> None:
    """Refuse features of a run that will have no states.

    Raises:
        UsageError: The lens that stores them is not among its lenses.
    """
    if PROBE_LENS not in experiment.lenses:
        raise UsageError(
            f"--features writes the states of the lens {PROBE_LENS!r}; name it with -l {PROBE_LENS}"
        )


def write_all_features(directory: Path, progress: Progress) -> list[str]:
    """Write a file per model and task of a run into its folder ``features/``.

    Returns:
        A line about each file, for a person.

    Raises:
        InputError: The run has no states.
        StoreError: A file cannot be written.
    """
    run = RunData(directory)
    tasks = find_probe_tasks(run)
    if not tasks:
        raise InputError(f"{directory}: no states to write as features; run the lens {PROBE_LENS!r}")
    lines: list[str] = []
    with progress.stage("writing features", len(run.models) * len(tasks)) as advance:
        for model in run.models:
            for task in tasks:
                path = directory / "features" / f"model={model.slug}" / f"{task}.safetensors"
                lines.append(f"features: {write_features(run, model, task, path)}")
                advance()
    return lines


def _list_classes(states: LayerStates) -> list[str]:
    return sorted(states.examples["label"].unique().to_list())


def _example_tensors(states: LayerStates) -> dict[str, np.ndarray]:
    """Return labels, values, splits and folds of examples as arrays."""
    examples, classes = states.examples, _list_classes(states)
    number = {name: index for index, name in enumerate(classes)}
    split = {name: index for index, name in enumerate(_SPLITS)}
    return {
        "label": np.array([number[label] for label in examples["label"].to_list()], np.int64),
        "value": examples["value"].fill_null(float("nan")).to_numpy().astype(np.float64),
        "split": np.array([split.get(name, -1) for name in examples["split"].to_list()], np.int64),
        "fold": examples["fold"].fill_null(-1).to_numpy().astype(np.int64),
    }


_KINDS = {"float32": "F32", "float64": "F64", "int64": "I64"}


def _safetensors_header(
    sizes: dict[str, tuple[np.dtype, tuple[int, ...]]], metadata: dict[str, str]
) -> bytes:
    """Build the header of a safetensors file: its length in 8 bytes, then JSON, padded with blanks."""
    entries: dict[str, object] = {"__metadata__": metadata}
    begin = 0
    for name, (kind, shape) in sizes.items():
        end = begin + kind.itemsize * int(np.prod(shape))
        entries[name] = {"dtype": _KINDS[kind.name], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(entries, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw
