"""What a user can choose: for a whole run, and for each lens; read from the models that check it."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.base.described import Described, described_fields, named
from sonde.base.errors import UnknownNameError
from sonde.capture.settings import CaptureOptions
from sonde.corpora import Selection
from sonde.experiments._experiment import Execution, Experiment
from sonde.lenses import LENSES, LensDefaults

RUN = "run"
"""What the options that belong to all lenses are called among the names of lenses."""


def run_options() -> tuple[Described, ...]:
    """The options that belong to all lenses: of an experiment, its selection, capture and execution."""
    return (
        *described_fields(Experiment),
        *described_fields(Selection, "selection"),
        *described_fields(CaptureOptions, "capture"),
        *described_fields(Execution),
    )


def lens_options(source: str) -> tuple[Described, ...]:
    """The options of a lens, which a name or a path names.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
        InputError: A path that is no lens.
    """
    lens = LENSES.load(source)
    typed = lens.typed_options.described() if isinstance(lens, LensDefaults) else ()
    known = {one.name for one in typed}
    return (*typed, *named({name: line for name, line in lens.options.items() if name not in known}))


def all_options(of: str | None = None) -> Mapping[str, tuple[Described, ...]]:
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
