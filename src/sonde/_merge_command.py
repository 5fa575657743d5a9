"""``sonde merge``: shares of a run, made one by one with ``sonde run --shard``, become one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, with_addresses


@with_addresses("directories", "output")
def merge(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of all shards, in any order.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the run that they become.")],
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes at a time for what is scored.")
    ] = 1,
    no_report: Annotated[bool, typer.Option("--no-report", help="Leave the page out.")] = False,
) -> Shown:
    """Make one run of the shards of ``sonde run --shard I/N``; refuses what does not belong together."""
    from sonde._console import outcome_data, print_outcome, progress
    from sonde.base.error_log import log_beside
    from sonde.experiments.merging import merge as merged
    from sonde.report import build_report
    from sonde.store.remote import fetched, in_step

    teller = progress()
    with in_step(output, teller.note) as folder:
        log_beside(folder)
        outcome = merged([fetched(one) for one in directories], folder, teller, workers=workers)
        page = None if no_report else build_report(folder, teller.note)
    return Shown(outcome_data(outcome, page), lambda: print_outcome(outcome, page))
