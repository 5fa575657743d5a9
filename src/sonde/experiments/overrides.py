"""Options of the command line laid over an experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.options import Option, guessed
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.experiments._experiment import Experiment
from sonde.lenses import LENSES, typed_options

Record = TypeVar("Record", Experiment, Selection, CaptureOptions)


def selection_of(given: Mapping[str, Any]) -> Selection:
    """A selection with the options that were given; None stands for "not given"."""
    return _laid_over(Selection(), given)


def overridden(base: Experiment | None, given: Mapping[str, Any]) -> Experiment:
    """An experiment with the options that were given on the command line in place of the file's.

    Args:
        base: What a file says.
        given: Fields of `Experiment`, `Selection` and `CaptureOptions` by name; None stands for "not given".

    Raises:
        UnknownNameError: A mode that does not exist.
    """
    start = base or Experiment()
    merged: dict[str, Any] = {
        **given,
        "selection": _laid_over(start.selection, given),
        "capture": _laid_over(start.capture, given),
    }
    if given.get("options"):
        merged["options"] = _merged(start.options, given.get("lenses") or start.lenses, given["options"])
    return _laid_over(start, merged)


def _laid_over(base: Record, given: Mapping[str, Any]) -> Record:
    """Plain data with the fields that were given, their lists as tuples."""
    values = {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in dataclasses.fields(base)
        if (value := given.get(field.name)) not in (None, [])
    }
    return dataclasses.replace(base, **values)


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
    base: Mapping[str, Mapping[str, Option]], lenses: Sequence[str], given: Sequence[tuple[str, str, str]]
) -> dict[str, dict[str, Option]]:
    """The options with those of a command line, which have the types that they have in the lens."""
    merged = {lens: dict(options) for lens, options in base.items()}
    loaded = {source: LENSES.load(source) for source in lenses}
    loaded |= {lens.name: lens for lens in loaded.values()}
    for source, name, text in given:
        lens = loaded.get(source)
        value = typed_options(lens).written(name, text) if lens else guessed(text)
        merged.setdefault(lens.name if lens else source, {})[name] = value
    return merged


def default_output(experiment: Experiment, name: str | None) -> Path:
    """The folder of a run that names none: the same arguments give the same folder, so it goes on there."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"
