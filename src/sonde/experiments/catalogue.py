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
from sonde.lenses import LENSES, LensDefaults
from sonde.models import Checkpoint, describe_checkpoint, known_checkpoints, known_models
from sonde.results.published import parse_published_table
from sonde.tasks.engine.task import TASKS

GROUP = "sonde.experiments.published"


def experiment_files() -> dict[str, Path]:
    """Experiment files that papers ship, by name as ``inspect/table2``."""
    return _find_files("experiments")


def published_files() -> dict[str, Path]:
    """Tables that papers published, by name as ``inspect/table2``."""
    return _find_files("published")


def _find_files(folder: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for paper, point in sorted(find_entry_points(GROUP).items()):
        source = find_source_file(point)
        for path in sorted((source.parent / folder).glob("*.toml")) if source else ():
            found[f"{paper}/{path.stem}"] = path
    return found


def find_experiment_file(name: Path) -> tuple[Path, str]:
    """An experiment file by its path, else by the name that a paper ships it under.

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
    shipped, wanted = experiment_files(), name.with_suffix("").as_posix()
    paper = wanted.partition("/")[0]
    if paper not in find_entry_points(GROUP) or "/" not in wanted:
        return name, name.stem
    if wanted not in shipped:
        wanted = next(
            (one for one, path in shipped.items() if wanted in load_experiment(path).replicates), wanted
        )
    if wanted not in shipped:
        raise UnknownNameError("experiment", wanted, shipped, "see `sonde list experiments`")
    return shipped[wanted], wanted.replace("/", "-")


def experiment_headers() -> tuple[Header, ...]:
    """Name of each experiment file that a paper ships, with its first line of comment."""
    return tuple(Header(name, _first_comment(path)) for name, path in experiment_files().items())


def _first_comment(path: Path) -> str:
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next(lines, "").removeprefix("# ").rstrip(".")


def describe_replication(experiment: Experiment) -> dict[str, Any]:
    """The published tables that an experiment replicates and what the shipped file says, for ``run.json``.

    Raises:
        UnknownNameError: No paper published a table of this name; the nearest is named.
        InputError: A table cannot be read.
    """
    if not experiment.replicates:
        return {}
    known = published_files()
    tables: dict[str, Any] = {}
    for name in experiment.replicates:
        if name not in known:
            raise UnknownNameError("published table", name, known)
        tables[name] = _read_published(known[name])
        parse_published_table(name, tables[name])
    return {"tables": tables, "file": _read_shipped_experiment(experiment)}


def _read_shipped_experiment(experiment: Experiment) -> Mapping[str, Any]:
    """The first shipped experiment of the same tables; nothing where there is none."""
    for path in experiment_files().values():
        shipped = load_experiment(path)
        if shipped.replicates == experiment.replicates:
            return to_plain_data(shipped)
    return {}


def _read_published(path: Path) -> dict[str, Any]:
    """A published table, with null for NaN, which JSON lacks."""
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


def list_headers(what: str, beside: Mapping[str, Registry[Any]] | None = None) -> tuple[Header, ...]:
    """Headers of everything of one kind.

    Args:
        what: The kind, such as ``"lenses"``.
        beside: Registries of further kinds.

    Raises:
        UnknownNameError: There is no such kind; the nearest is named.
    """
    if what == "models":
        return known_models()
    if what == "experiments":
        return experiment_headers()
    registries = {**REGISTRIES, **(beside or {})}
    if what not in registries:
        raise UnknownNameError("kind", what, [*registries, "experiments", "models", "options"])
    return registries[what].headers()


def list_checkpoints(lens: str | None = None) -> tuple[Checkpoint, ...]:
    """The known checkpoints, by name and without reading any.

    Args:
        lens: Only those that this lens can read.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
    """
    known = known_checkpoints()
    if lens is None:
        return known
    refuses = LENSES.load(lens).unsupported_reason
    return tuple(one for one in known if refuses(describe_checkpoint(one)) is None)


RUN = "run"
"""What the options that belong to all lenses are called among the names of lenses."""


def run_options() -> tuple[OptionDescription, ...]:
    """The options that belong to all lenses: of an experiment, its selection, capture and execution."""
    return (
        *describe_fields(Experiment),
        *describe_fields(Selection, "selection"),
        *describe_fields(CaptureOptions, "capture"),
        *describe_fields(Execution),
    )


def lens_options(source: str) -> tuple[OptionDescription, ...]:
    """The options of a lens, which a name or a path names.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
        InputError: A path that is no lens.
    """
    lens = LENSES.load(source)
    typed = lens.typed_options.describe() if isinstance(lens, LensDefaults) else ()
    known = {one.name for one in typed}
    return (
        *typed,
        *describe_named_options({name: line for name, line in lens.options.items() if name not in known}),
    )


def all_options(of: str | None = None) -> Mapping[str, tuple[OptionDescription, ...]]:
    """The options of a run and of every lens, or of one of these alone.

    Args:
        of: ``"run"``, or a lens by name or path; None for everything.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
        InputError: A path that is no lens.
    """
    if of is None:
        return {RUN: run_options()} | {name: lens_options(name) for name in LENSES.names()}
    if of == RUN:
        return {RUN: run_options()}
    try:
        return {LENSES.load(of).name: lens_options(of)}
    except UnknownNameError as error:
        raise (UnknownNameError("lens", of, [RUN, *LENSES.names()]) if error.name == of else error) from None
