"""Experiments that replicate a paper: files that papers ship, and the published tables that they go with.

A paper offers its folder by an entry point of the group `GROUP`: below it, ``experiments/`` holds experiment
files and ``published/`` the tables, a file each (`sonde.results.published`).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.outside import offered, source_of
from sonde.base.registry import Header
from sonde.experiments._experiment import Experiment, as_json, load_experiment
from sonde.results.published import published_table

GROUP = "sonde.experiments.published"


def experiment_files() -> dict[str, Path]:
    """Experiment files that papers ship, by name as ``inspect/table2``."""
    return _files("experiments")


def published_files() -> dict[str, Path]:
    """Tables that papers published, by name as ``inspect/table2``."""
    return _files("published")


def _files(folder: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for paper, point in sorted(offered(GROUP).items()):
        source = source_of(point)
        for path in sorted((source.parent / folder).glob("*.toml")) if source else ():
            found[f"{paper}/{path.stem}"] = path
    return found


def experiment_file(name: Path) -> tuple[Path, str]:
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
    if paper not in offered(GROUP) or "/" not in wanted:
        return name, name.stem
    if wanted not in shipped:
        wanted = next((one for one, path in shipped.items() if wanted in _replicates(path)), wanted)
    if wanted not in shipped:
        raise UnknownNameError("experiment", wanted, shipped, "see `sonde list experiments`")
    return shipped[wanted], wanted.replace("/", "-")


def _replicates(path: Path) -> Sequence[str]:
    return load_experiment(path).replicates


def headers() -> tuple[Header, ...]:
    """Name of each experiment file that a paper ships, with its first line of comment."""
    return tuple(Header(name, _summary(path)) for name, path in experiment_files().items())


def _summary(path: Path) -> str:
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    return next(lines, "").removeprefix("# ").rstrip(".")


def replicated(experiment: Experiment) -> dict[str, Any]:
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
        tables[name] = _read(known[name])
        published_table(name, tables[name])
    return {"tables": tables, "file": _as_shipped(experiment)}


def _as_shipped(experiment: Experiment) -> Mapping[str, Any]:
    """The first shipped experiment of the same tables; nothing where there is none."""
    for path in experiment_files().values():
        shipped = load_experiment(path)
        if shipped.replicates == experiment.replicates:
            return as_json(shipped)
    return {}


def _read(path: Path) -> dict[str, Any]:
    try:
        return _without_nan(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"published table {str(path)!r}: {error}") from error


def _without_nan(value: Any) -> Any:
    """Plain data with null for NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
