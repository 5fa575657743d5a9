"""What a caller gave laid over an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option, guessed
from sonde.corpora import Selection
from sonde.experiments._experiment import Experiment
from sonde.lenses import LENSES, typed_options

_SELECTION = ("unit", "languages", "limit", "per_cluster", "seed")


def selection_of(given: Mapping[str, Any], base: Selection | None = None) -> Selection:
    """A selection with the options that were given; None stands for "not given"."""
    values = {name: given[name] for name in _SELECTION if given.get(name) is not None}
    if "languages" in values:
        values["languages"] = tuple(values["languages"])
    return dataclasses.replace(base or Selection(), **values)


def overridden(base: Experiment | None, given: Mapping[str, Any]) -> Experiment:
    """An experiment with what was given in place of its own.

    Raises:
        UnknownNameError: A mode that does not exist.
    """
    start = base or Experiment()
    values: dict[str, Any] = {"selection": selection_of(given, start.selection)}
    for name in ("models", "lenses", "tasks", "corpora", "quirks"):
        if given.get(name):
            values[name] = tuple(given[name])
    for name in ("mode", "include_seen"):
        if given.get(name) is not None:
            values[name] = given[name]
    if given.get("options"):
        values["options"] = _merged(start.options, values.get("lenses", start.lenses), given["options"])
    return dataclasses.replace(start, **values)


def parse_option(text: str) -> tuple[str, str, str]:
    """Take ``LENS.NAME=VALUE`` apart; the lens may be the path of a file.

    >>> parse_option("surprisal.min_count=50")
    ('surprisal', 'min_count', '50')

    Raises:
        UsageError: The text is something else.
    """
    path, equals, value = text.partition("=")
    lens, dot, name = path.rpartition(".")
    if not (equals and dot and lens and name):
        raise UsageError(f"option {text!r}: expected LENS.NAME=VALUE, for example surprisal.min_count=50")
    return lens, name, value


def _merged(
    base: Mapping[str, Mapping[str, Option]], lenses: Sequence[str], given: Sequence[tuple[str, str, Option]]
) -> dict[str, dict[str, Option]]:
    """The options with those that were given; texts of a command line get the types of the lens."""
    merged = {lens: dict(options) for lens, options in base.items()}
    loaded = {source: LENSES.load(source) for source in lenses}
    loaded |= {lens.name: lens for lens in loaded.values()}
    for source, name, value in given:
        lens = loaded.get(source)
        if isinstance(value, str):
            value = typed_options(lens).written(name, value) if lens else guessed(value)
        merged.setdefault(lens.name if lens else source, {})[name] = value
    return merged


def default_output(experiment: Experiment, name: str | None) -> Path:
    """The folder of a run that names none: the same arguments give the same folder, so it goes on there."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"
