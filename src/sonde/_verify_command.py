"""``sonde verify``: whether the files of a run are still what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, with_addresses
from sonde.base.terminal import say


@with_addresses("directory")
def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run or of a comparison.")],
) -> Shown:
    """Hash every file of a run again and name those that are damaged (exit code 1)."""
    import dataclasses

    from sonde.store.receipts import remedy
    from sonde.store.receipts import verify as held_to_receipts
    from sonde.store.remote import fetched

    found = held_to_receipts(folder := fetched(directory, anew=True))

    def show() -> None:
        for path, what in found.damaged:
            say(f"{path}: {what}")
        if found.unchecked:
            some = ", ".join(found.unchecked[:3]) + (", ..." if len(found.unchecked) > 3 else "")
            say(f"not checked, since nothing says what was written: {len(found.unchecked)} ({some})")
        if found.damaged:
            say(f"{remedy(folder)}, and nothing else")
        say(f"{len(found.intact)} files are as they were written, {len(found.damaged)} are damaged")

    return Shown(dataclasses.asdict(found), show, exit_code=int(bool(found.damaged)))
