"""``sonde list``: what there is of a kind, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from sonde._shown import Shown, shown
from sonde.base.errors import UsageError


@shown
def list_names(
    what: Annotated[
        str,
        typer.Argument(
            help="models, lenses, options, tasks, languages, corpora, executors, plots or experiments."
        ),
    ],
    of: Annotated[
        str | None, typer.Argument(metavar="[LENS]", help="Options of this lens alone, or of a run.")
    ] = None,
    lens: Annotated[
        str | None, typer.Option("--for", metavar="LENS", help="Only the models that this lens can read.")
    ] = None,
) -> Shown:
    """List what there is, without importing it; options and models as tables."""
    from sonde._console import options_data, print_catalogue, print_checkpoints, print_options
    from sonde.experiments.catalogue import catalogue, checkpoints_for
    from sonde.experiments.options import all_options
    from sonde.report import PLOTS

    if lens is not None and what != "models":
        raise UsageError(f"only models are listed for a lens: `sonde list models --for {lens}`")
    if what == "options":
        options = all_options(of)
        return Shown({"options": options_data(options)}, lambda: print_options(options))
    headers = catalogue(what, {"plots": PLOTS})
    if of is not None:
        raise UsageError(f"only options are listed of one thing: `sonde list {what}`, without {of!r}")
    if what == "models":
        known = checkpoints_for(lens)
        return Shown({what: [one.data() for one in known]}, lambda: print_checkpoints(known))
    names = [{"name": header.name, "summary": header.summary} for header in headers]
    return Shown({what: names}, lambda: print_catalogue(headers))
