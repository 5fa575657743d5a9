"""Catalogue of extensions, options, experiment files and published tables, by name.

Names and summaries of extensions are read from headers, without importing the extensions. Options of a run
and of each lens are read from the models that validate them.

Experiments that replicate a paper are files that the paper ships, with the published tables that they
reproduce. A paper offers its folder by an entry point of the group `GROUP`: below it, ``experiments/`` holds
experiment files and ``published/`` the tables, a file each (`sonde.results.published`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.options import OptionDescription, describe_fields, describe_named_options
from sonde.base.registry import Header, Registry, find_entry_points, find_source_file
from sonde.capture.settings import CaptureOptions
from sonde.corpora import CORPORA, Selection
from sonde.executors import EXECUTORS
from sonde.experiments.experiment import Execution, Experiment, load_experiment, to_plain_data
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES
from sonde.models import Checkpoint, describe_checkpoint, known_checkpoints
from sonde.results.published import parse_published_table
from sonde.tasks import DrawingTask
from sonde.tasks.engine.task import TASKS

GROUP = "sonde.experiments.published"


def experiment_files() -> dict[str, Path]:
    """Return the experiment files that papers ship, by name as ``inspect/table2``."""
    return _find_files("experiments")


def published_files() -> dict[str, Path]:
    """Return the tables that papers published, by name as ``inspect/table2``."""
    return _find_files("published")


def _find_files(folder: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for paper, point in sorted(find_entry_points(GROUP).items()):
        source = find_source_file(point)
        for path in sorted((source.parent / folder).glob("*.toml")) if source else ():
            files[f"{paper}/{path.stem}"] = path
    return files


def find_experiment_file(name: Path) -> tuple[Path, str]:
    """Find an experiment file by its path, else by the name that a paper ships it under.

    Args:
        name: A path, or a name as ``inspect/table2.toml``; that of a published table stands for the file that
            replicates it.

    Returns:
        The file, and what its run is called.

    Raises:
        UnknownNameError: There is neither a file nor such a name of a paper; the nearest is named.
    """
    if name.is_file() or name.is_absolute():
        return name, name.stem
    files, public_name = experiment_files(), name.with_suffix("").as_posix()
    paper = public_name.partition("/")[0]
    if paper not in find_entry_points(GROUP) or "/" not in public_name:
        return name, name.stem
    if public_name not in files:
        public_name = next(
            (
                candidate
                for candidate, path in files.items()
                if public_name in load_experiment(path).replicates
            ),
            public_name,
        )
    if public_name not in files:
        raise UnknownNameError("experiment", public_name, files, "see `sonde list experiments`")
    return files[public_name], public_name.replace("/", "-")


def find_base_lens() -> str:
    """Return the lens that compares models with a base model."""
    return next(name for name in LENSES.names() if LENSES.load(name).compares_with_base)


def experiment_headers() -> tuple[Header, ...]:
    """Name of each experiment file that a paper ships, with its first line of comment."""
    return tuple(Header(name, _first_comment(path)) for name, path in experiment_files().items())


def _first_comment(path: Path) -> str:
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next(lines, "").removeprefix("# ").rstrip(".")


def describe_replication(experiment: Experiment) -> dict[str, Any]:
    """Return the published tables that an experiment replicates and the shipped file, for ``run.json``.

    Raises:
        UnknownNameError: No paper published a table of this name; the nearest is named.
        InputError: A table cannot be read.
    """
    if not experiment.replicates:
        return {}
    files = published_files()
    tables: dict[str, Any] = {}
    for name in experiment.replicates:
        if name not in files:
            raise UnknownNameError("published table", name, files)
        tables[name] = _read_published_table(files[name])
        parse_published_table(name, tables[name])
    return {"tables": tables, "file": _read_shipped_experiment(experiment)}


def _read_shipped_experiment(experiment: Experiment) -> Mapping[str, Any]:
    """Read the first shipped experiment with the same tables; empty if there is none."""
    for path in experiment_files().values():
        candidate = load_experiment(path)
        if candidate.replicates == experiment.replicates:
            return to_plain_data(candidate)
    return {}


def _read_published_table(path: Path) -> dict[str, Any]:
    """Read a published table, with null for NaN, which JSON lacks."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"published table {str(path)!r}: {error}") from error
    return to_jsonable_python(table, inf_nan_mode="null")


REGISTRIES: dict[str, Registry[object]] = {
    "corpora": CORPORA,  # pyright: ignore[reportAssignmentType]  registries are only read here
    "executors": EXECUTORS,  # pyright: ignore[reportAssignmentType]
    "languages": LANGUAGES,  # pyright: ignore[reportAssignmentType]
    "lenses": LENSES,  # pyright: ignore[reportAssignmentType]
    "tasks": TASKS,  # pyright: ignore[reportAssignmentType]
}


def list_checkpoints(lens: str | None = None) -> tuple[Checkpoint, ...]:
    """List the known checkpoints by name, without reading any.

    Args:
        lens: Only those that this lens can read.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
    """
    checkpoints = known_checkpoints()
    if lens is None:
        return checkpoints
    refuses = LENSES.load(lens).unsupported_reason
    return tuple(checkpoint for checkpoint in checkpoints if refuses(describe_checkpoint(checkpoint)) is None)


RUN = "run"
"""What the options that belong to all lenses are called among the names of lenses."""


def run_options() -> tuple[OptionDescription, ...]:
    """Describe the options of all lenses: those of an experiment, its selection, capture and execution."""
    return (
        *describe_fields(Experiment),
        *describe_fields(Selection, "selection"),
        *describe_fields(CaptureOptions, "capture"),
        *describe_fields(Execution),
    )


def lens_options(source: str) -> tuple[OptionDescription, ...]:
    """Describe the options of a lens, given by name or path.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
        InputError: A path that is no lens.
    """
    lens = LENSES.load(source)
    descriptions = lens.typed_options.describe()
    names = {description.name for description in descriptions}
    return (
        *descriptions,
        *describe_named_options({name: line for name, line in lens.options.items() if name not in names}),
    )


def find_lenses(task_name: str) -> tuple[str, ...]:
    """Find the lenses of sonde's own that take a task, by name.

    Raises:
        UnknownNameError: There is no such task; the nearest is named.
    """
    task = TASKS.load(task_name)
    lenses = {name: LENSES.load(name) for name in LENSES.names() if LENSES.is_own(name)}
    owners = {name for name, lens in lenses.items() if task.name in lens.tasks}
    # What one lens draws from files for itself is no question that another lens asks.
    if task.target != "corpus" or (isinstance(task, DrawingTask) and not owners):
        owners |= {name for name, lens in lenses.items() if task.target in lens.targets}
    return tuple(sorted(owners))


def all_options(source: str | None = None) -> Mapping[str, tuple[OptionDescription, ...]]:
    """Describe the options of a run and of every lens, or of one of these alone.

    Args:
        source: ``"run"``, or a lens by name or path; None for everything.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
        InputError: A path that is no lens.
    """
    if source is None:
        return {RUN: run_options()} | {name: lens_options(name) for name in LENSES.names()}
    if source == RUN:
        return {RUN: run_options()}
    try:
        return {LENSES.load(source).name: lens_options(source)}
    except UnknownNameError as error:
        raise (
            UnknownNameError("lens", source, [RUN, *LENSES.names()]) if error.name == source else error
        ) from None
