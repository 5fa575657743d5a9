"""An experiment: which models, lenses and corpora, chosen how; plain data, from a file or from options."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from sonde.base.checked import check_fields
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.options import AnyDevice, Count, OneOf, Option
from sonde.corpora import Selection

MODES = ("corrected", "paper")
DTYPES = ("auto", "float32", "float16", "bfloat16")


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
    mode: Annotated[str, OneOf(MODES)] = "corrected"
    quirks: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    include_seen: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

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
        workers: Processes at a time that hold a model.
        light_workers: Processes at a time for what takes little memory, such as labels.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
        dtype: ``"auto"``, ``"float32"``, ``"bfloat16"``, ``"float16"``.
        lock: A lock file that fixes the items.
        trust_remote_code: Let a hub model bring its own code.
    """

    output: Path
    executor: str = "local"
    workers: Count = 1
    light_workers: Count = 1
    device: AnyDevice = "auto"
    dtype: Annotated[str, OneOf(DTYPES)] = "auto"
    lock: Path | None = None
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


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
    values = dict(table)
    selection = values.get("selection", {})
    if not isinstance(selection, dict):
        raise UsageError(f"selection = {selection!r} is not a table; in {where}")
    try:
        values["selection"] = Selection(**_known(Selection, selection, "selection"))
        return Experiment(**_known(Experiment, values, "experiment"))
    except UsageError as error:
        raise error.located(where) from None


def _known(kind: type[Experiment | Selection], table: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The values of a table, its lists as tuples; a key that there is not is refused."""
    known = [field.name for field in dataclasses.fields(kind)]
    for key in table:
        if key not in known:
            raise UnknownNameError(f"{what} key", key, known)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
