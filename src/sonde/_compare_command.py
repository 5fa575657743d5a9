"""``sonde compare``: what got better, what got worse, and what cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, shown


@shown
def compare(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs; of one, the models inside it.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder of the comparison; by default beside the run."),
    ] = None,
    series: Annotated[
        str,
        typer.Option("--series", metavar="REGEX", help=r"Checkpoints of one training, as 'step(\d+)'."),
    ] = "",
    least: Annotated[
        list[str] | None,
        typer.Option(
            "--least",
            metavar="METRIC=SIZE",
            help="The least size of a difference that matters, in the unit of the metric (may be repeated; "
            "default 0.01 for shares, 0.005 for bits per byte).",
        ),
    ] = None,
    lenses: Annotated[
        list[str] | None,
        typer.Option("-l", "--lens", metavar="FILE", help="A lens of your own that the runs were made with."),
    ] = None,
) -> Shown:
    """Hold models against each other on the same items: what got better, worse, or cannot be told."""
    from sonde._console import comparison_data, print_comparison, progress
    from sonde.experiments.comparing import compare as held_against
    from sonde.experiments.comparing import default_output, write_comparison, write_series
    from sonde.lenses import LENSES
    from sonde.report import build_comparison
    from sonde.results.least import sizes_of
    from sonde.store.remote import fetched

    sizes = sizes_of(least or ())
    for lens in lenses or ():
        LENSES.hand_in(lens)
    directories = [fetched(one) for one in directories]
    found = held_against(directories, progress(), series=series, least=sizes)
    folder = write_comparison(found, output or default_output(directories))
    if series:
        write_series(directories, series, folder, least=sizes)
    page = build_comparison(folder)
    return Shown(comparison_data(folder, page), lambda: print_comparison(folder, page))
