"""States of a run as files that other programs read: safetensors, and a table of the examples beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.experiments import Experiment, Progress
from sonde.facade.states import PROBING, layers_of, probe_states, probed_tasks
from sonde.lenses.probe.states import LayerStates
from sonde.report import ModelInfo, RunData

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
        SondeError: See `sonde.facade.states.probe_states`.
    """
    wanted = range(layers_of(run, model)) if layers is None else layers
    first = probe_states(run, model, task, wanted[0], pooling)
    small = _small_tensors(first)
    shape = first.values.shape
    sizes = {f"layer.{layer}": (np.dtype(np.float32), shape) for layer in wanted}
    sizes |= {name: (held.dtype, held.shape) for name, held in small.items()}
    about = {
        "model": model.name,
        "task": task,
        "pooling": first.pooling,
        "classes": json.dumps(_classes(first)),
        "splits": json.dumps(_SPLITS),
    }

    def tensors() -> Iterator[np.ndarray]:
        yield first.values
        for layer in wanted[1:]:
            yield probe_states(run, model, task, layer, pooling).values
        yield from small.values()

    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            handle.write(_header(sizes, about))
            for held in tensors():
                np.ascontiguousarray(held).tofile(handle)
        first.examples.write_parquet(path.with_suffix(".examples.parquet"))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def refuse_without_states(experiment: Experiment) -> None:
    """Refuse features of a run that will have no states.

    Raises:
        UsageError: The lens that stores them is not among its lenses.
    """
    if PROBING not in experiment.lenses:
        raise UsageError(f"--features writes the states of the lens {PROBING!r}; name it with -l {PROBING}")


def write_all_features(directory: Path, progress: Progress) -> list[str]:
    """Write a file a model and task of a run into its folder ``features/``.

    Returns:
        A line about each file, for a person.

    Raises:
        InputError: The run has no states.
        StoreError: A file cannot be written.
    """
    run = RunData(directory)
    tasks = probed_tasks(run)
    if not tasks:
        raise InputError(f"{directory}: no states to write as features; run the lens {PROBING!r}")
    lines: list[str] = []
    with progress.stage("writing features", len(run.models) * len(tasks)) as advance:
        for model in run.models:
            for task in tasks:
                path = directory / "features" / f"model={model.slug}" / f"{task}.safetensors"
                lines.append(f"features: {write_features(run, model, task, path)}")
                advance()
    return lines


def _classes(states: LayerStates) -> list[str]:
    return sorted(states.examples["label"].unique().to_list())


def _small_tensors(states: LayerStates) -> dict[str, np.ndarray]:
    """What else there is of each example, as numbers."""
    examples, classes = states.examples, _classes(states)
    number = {name: place for place, name in enumerate(classes)}
    split = {name: place for place, name in enumerate(_SPLITS)}
    return {
        "label": np.array([number[label] for label in examples["label"].to_list()], np.int64),
        "value": examples["value"].fill_null(float("nan")).to_numpy().astype(np.float64),
        "split": np.array([split.get(one, -1) for one in examples["split"].to_list()], np.int64),
        "fold": examples["fold"].fill_null(-1).to_numpy().astype(np.int64),
    }


_KINDS = {"float32": "F32", "float64": "F64", "int64": "I64"}


def _header(sizes: dict[str, tuple[np.dtype, tuple[int, ...]]], about: dict[str, str]) -> bytes:
    """The head of a safetensors file: its length in 8 bytes, then JSON, filled up with blanks."""
    entries: dict[str, object] = {"__metadata__": about}
    begin = 0
    for name, (kind, shape) in sizes.items():
        end = begin + kind.itemsize * int(np.prod(shape))
        entries[name] = {"dtype": _KINDS[kind.name], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(entries, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw
