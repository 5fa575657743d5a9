"""``sonde.card``: what ``sonde card`` does, from Python."""

from __future__ import annotations

from pathlib import Path

from sonde.experiments import Silent
from sonde.experiments.arguments import Place
from sonde.facade.finished import Run
from sonde.report import Card, build_card
from sonde.store.remote import in_step
from sonde.store.rundir import CARD_FILES


def card(run: Place | Run, *, require: Place | None = None) -> Card:
    """What a finished run found in few numbers, and whether it meets what is required.

    ``card.json`` and ``card.md`` are written into the folder of the run, as ``sonde card`` does; a notebook
    shows the second.

    Args:
        run: A run, or its folder or address.
        require: A file of requirements (TOML), see ``docs/card.md``.

    Returns:
        The card: ``headlines`` has the number that speaks for each task with its best control and verdict,
        ``requirements`` the outcomes, ``met`` whether all are met, ``provenance`` and ``left_out`` the rest.

    Raises:
        InputError: There is no run in the folder, or a file cannot be read.
        UsageError: A requirement is none, or says of no single number what it is.
    """
    directory = run.directory if isinstance(run, Run) else Path(run)
    with in_step(directory, Silent().note, outputs=CARD_FILES) as folder:
        return build_card(folder, None if require is None else Path(require))
