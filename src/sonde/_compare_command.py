"""``sonde compare``: what got better, what got worse, and where no difference was found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, with_addresses


@with_addresses("directories", "output")
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
    """Hold models against each other on the same items: what got better, worse, or shows no difference."""
    from sonde._console import comparison_data, print_comparison, progress
    from sonde.facade.compared import write_compared
    from sonde.lenses import LENSES
    from sonde.results.least import sizes_of

    sizes = sizes_of(least or ())
    for lens in lenses or ():
        LENSES.hand_in(lens)
    folder, page = write_compared(directories, output, series, sizes, progress())
    return Shown(comparison_data(folder, page), lambda: print_comparison(folder, page))
