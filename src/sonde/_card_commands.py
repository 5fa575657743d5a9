"""``sonde card``: what a run found in few numbers, and whether it meets what is required."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, with_addresses
from sonde.base.terminal import note, say


@with_addresses("directory")
def card(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    require: Annotated[
        Path | None,
        typer.Option("--require", help="Requirements (TOML); exit code 1 where one is not met."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write the outcomes as JUnit XML into this file.")
    ] = None,
) -> Shown:
    """Write the card of a finished run: card.json, and card.md for a model card."""
    from sonde.base.errors import UsageError
    from sonde.base.files import write_atomic
    from sonde.report import build_card, entry_line, outcome_line
    from sonde.report import junit as junit_xml
    from sonde.store.remote import in_step
    from sonde.store.rundir import CARD_FILES, RunDirectory

    if junit is not None and require is None:
        raise UsageError("--junit writes outcomes of requirements; give --require FILE as well")
    with in_step(directory, note, outputs=CARD_FILES) as folder:
        found = build_card(folder, require)
    files = [RunDirectory(folder).card, RunDirectory(folder).card_section]
    if junit is not None:
        write_atomic(junit, junit_xml(found))
        files.append(junit)

    def show() -> None:
        lines = [entry_line(one) for one in found.headlines] if require is None else []
        lines += [outcome_line(one) for one in found.requirements]
        say(*lines, *(f"card: {file}" for file in files))

    return Shown(found.model_dump(mode="json"), show, exit_code=int(not found.met))
