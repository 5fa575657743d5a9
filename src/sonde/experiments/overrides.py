"""What a caller gave laid over an experiment."""

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
from sonde.lenses import DEFAULT_LENS, LENSES, typed_options
from sonde.models import full_name
from sonde.models.engine.model_names import NONE

Record = TypeVar("Record", Experiment, Selection, CaptureOptions)


def selection_of(given: Mapping[str, Any]) -> Selection:
    """A selection with the options that were given; None stands for "not given"."""
    return _laid_over(Selection(), given)


def overridden(base: Experiment | None, given: Mapping[str, Any]) -> Experiment:
    """An experiment with what was given in place of its own.

    Args:
        base: What a file says.
        given: Fields of `Experiment`, `Selection` and `CaptureOptions` by name; None stands for "not given".
            ``options`` are laid over the file's one by one.

    Raises:
        UnknownNameError: A mode that does not exist.
    """
    start = base or Experiment()
    merged: dict[str, Any] = {
        **given,
        "selection": _laid_over(start.selection, given),
        "capture": _laid_over(start.capture, given),
    }
    if options := given.get("options"):
        merged["options"] = {
            lens: {**start.options.get(lens, {}), **options.get(lens, {})}
            for lens in {**start.options, **options}
        }
    return _laid_over(start, merged)


def with_full_names(experiment: Experiment) -> Experiment:
    """An experiment whose models say by their names what adapter and quantisation they have.

    Raises:
        UsageError: A name that cannot be read, or a model behind a server that is to have either.
    """
    names = [
        full_name(name, adapter=experiment.adapter, quantise=experiment.quantise)
        for name in experiment.models
    ]
    return dataclasses.replace(experiment, models=tuple(names), adapter="", quantise=NONE)


def _laid_over(base: Record, given: Mapping[str, Any]) -> Record:
    """Plain data with the fields that were given, their lists as tuples."""
    values = {
        field.name: tuple(value) if isinstance(value, list) else value
        for field in dataclasses.fields(base)
        if (value := given.get(field.name)) not in (None, [], {})
    }
    return dataclasses.replace(base, **values)


def written_options(texts: Sequence[str], lenses: Sequence[str]) -> dict[str, dict[str, Option]]:
    """Options that were written ``LENS.NAME=VALUE``, by lens and name, of the types that they have there.

    >>> written_options(["surprisal.min_count=50"], ["surprisal"])
    {'surprisal': {'min_count': 50}}

    Args:
        texts: The options; a lens may be the path of a file.
        lenses: The lenses of the experiment; those of others are kept as they look.

    Raises:
        UsageError: A text is something else.
    """
    loaded = {source: LENSES.load(source) for source in lenses}
    loaded |= {lens.name: lens for lens in loaded.values()}
    options: dict[str, dict[str, Option]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        source, dot, name = path.rpartition(".")
        if not (equals and dot and source and name):
            raise UsageError(f"option {text!r}: expected LENS.NAME=VALUE, for example {_example()}")
        lens = loaded.get(source)
        read = typed_options(lens).written(name, value) if lens else guessed(value)
        options.setdefault(lens.name if lens else source, {})[name] = read
    return options


def _example() -> str:
    """An option that there is, as it is written."""
    known = typed_options(LENSES.load(DEFAULT_LENS)).described()
    one = next(one for one in known if one.values.kind is int and not one.scoring)
    return f"{DEFAULT_LENS}.{one.name}={one.default}"


def default_output(experiment: Experiment, name: str | None) -> Path:
    """The folder of a run that names none: the same arguments give the same folder, so it goes on there."""
    return Path("runs") / f"{name or '-'.join(experiment.lenses)}-{fingerprint(experiment)[:8]}"
