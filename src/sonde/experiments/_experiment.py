"""An experiment: which models, lenses and corpora, chosen how; plain data, from a file or from options."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.options import Option
from sonde.corpora import Selection

MODES = ("corrected", "paper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is measured. Two equal experiments on equal inputs give equal scores.

    Attributes:
        models: Model names as a user writes them.
        lenses: Public names of lenses.
        tasks: Tasks in place of those that a lens asks by itself; empty leaves each lens its own.
        corpora: Corpora as named on the command line.
        selection: How items are chosen from each corpus.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Named quirks switched on beside the mode's preset.
        options: Options of a lens, by lens and name.
        include_seen: Also score items that a model was trained on.
    """

    models: tuple[str, ...] = ("sonde/mini-decoder",)
    lenses: tuple[str, ...] = ("surprisal",)
    tasks: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("stdlib",)
    selection: Selection = field(default_factory=Selection)
    mode: str = "corrected"
    quirks: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    include_seen: bool = False

    @property
    def seed(self) -> int:
        """The seed of everything random; the sample of items follows it too."""
        return self.selection.seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How and where an experiment runs; nothing here changes its scores beyond rounding.

    Attributes:
        output: The folder of the run.
        executor: Public name of the executor.
        workers: Processes at a time.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"``, ``"float16"``.
        lock: A lock file that fixes the items.
        trust_remote_code: Let a hub model bring its own code.
    """

    output: Path
    executor: str = "local"
    workers: int = 1
    device: str = "auto"
    dtype: str = "auto"
    lock: Path | None = None
    trust_remote_code: bool = False


def load_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        InputError: The file is missing or is not TOML.
        UnknownNameError: A key that no experiment has; the nearest is named.
        UsageError: A value of the wrong type.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"experiment {str(path)!r}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"experiment {str(path)!r}: not TOML: {error}") from error
    return _experiment(table, str(path))


def _experiment(table: Mapping[str, Any], where: str) -> Experiment:
    known = {f.name for f in dataclasses.fields(Experiment)}
    for key in table:
        if key not in known:
            raise UnknownNameError("experiment key", key, known, f"in {where}")
    values = dict(table)
    for name in ("models", "lenses", "tasks", "corpora", "quirks"):
        if name in values:
            values[name] = _strings(values[name], f"{name} in {where}")
    values["selection"] = _selection(values.get("selection", {}), where)
    experiment = Experiment(**values)
    if experiment.mode not in MODES:
        raise UnknownNameError("mode", experiment.mode, MODES, f"in {where}")
    return experiment


def _selection(table: Any, where: str) -> Selection:
    if not isinstance(table, dict):
        raise UsageError(f"selection in {where}: a table was expected, got {table!r}")
    values: dict[str, Any] = dict(table)
    known = {f.name: f for f in dataclasses.fields(Selection)}
    for key, value in values.items():
        if key not in known:
            raise UnknownNameError("selection key", key, known, f"in {where}")
        if key in ("languages", "licences"):
            values[key] = _strings(value, f"selection.{key} in {where}")
        elif isinstance(value, list | dict):
            raise UsageError(f"selection.{key} in {where}: a single value was expected, got {value!r}")
    return Selection(**values)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    raise UsageError(f"{where}: a list of strings was expected, got {value!r}")
