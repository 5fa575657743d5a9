"""Options of the command line laid over an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.corpora import Selection
from sonde.experiments._experiment import MODES, Experiment, Option

_SELECTION = ("unit", "languages", "limit", "seed")


def selection_of(given: Mapping[str, Any], base: Selection | None = None) -> Selection:
    """A selection with the options that were given; None stands for "not given"."""
    values = {name: given[name] for name in _SELECTION if given.get(name) is not None}
    if "languages" in values:
        values["languages"] = tuple(values["languages"])
    return dataclasses.replace(base or Selection(), **values)


def overridden(base: Experiment | None, given: Mapping[str, Any]) -> Experiment:
    """An experiment with the options that were given on the command line in place of the file's.

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
        values["options"] = _merged(start.options, given["options"])
    experiment = dataclasses.replace(start, **values)
    if experiment.mode not in MODES:
        raise UnknownNameError("mode", experiment.mode, MODES)
    return experiment


def parse_option(text: str) -> tuple[str, str, Option]:
    """Take ``LENS.NAME=VALUE`` apart; numbers and true/false become what they look like.

    >>> parse_option("surprisal.minimum=50")
    ('surprisal', 'minimum', 50)
    """
    path, equals, value = text.partition("=")
    lens, dot, name = path.partition(".")
    if not (equals and dot and lens and name):
        raise UsageError(f"option {text!r}: expected LENS.NAME=VALUE, for example surprisal.minimum=50")
    if value.lower() in ("true", "false"):
        return lens, name, value.lower() == "true"
    for number in (int, float):
        try:
            return lens, name, number(value)
        except ValueError:
            continue
    return lens, name, value


def _merged(
    base: Mapping[str, Mapping[str, Option]], given: Sequence[tuple[str, str, Option]]
) -> dict[str, dict[str, Option]]:
    merged = {lens: dict(options) for lens, options in base.items()}
    for lens, name, value in given:
        merged.setdefault(lens, {})[name] = value
    return merged


def default_output(experiment: Experiment, name: str | None) -> Path:
    """The folder of a run that names none: the same arguments give the same folder, so it goes on there."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"
