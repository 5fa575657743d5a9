"""``sonde predict``: what the probes or the fine-tuned models of a run say of other files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sonde._shown import Shown, with_addresses
from sonde.base.terminal import note, say


@with_addresses("place")
def predict(
    place: Annotated[
        Path,
        typer.Argument(metavar="RUN_OR_MODEL", help="Folder of a run, or of a fine-tuned model."),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of code.")],
    task: Annotated[str | None, typer.Option("-t", "--task", help="Where the run has several.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Where the run has several.")] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="0 the embeddings; by default the chosen one.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="text, json or sarif.")] = "text",
) -> Shown:
    """Say of the functions of files what a probe or a fine-tuned model says, with its own accuracy.

    Of a task about bugs also where each stands and what would undo it; --format sarif is what code scanning
    reads.
    """
    from sonde.base.errors import UnknownNameError, UsageError
    from sonde.facade.finished import Run
    from sonde.facade.predicted import FORMS
    from sonde.facade.tuned import is_tuned, predict_tuned

    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS)
    if not is_tuned(place):
        found = Run(place).predict(files, task=task, model=model, layer=layer)
    elif task is None and model is None and layer is None:
        found = predict_tuned(place, files)
    else:
        raise UsageError(f"{str(place)!r} is a fine-tuned model of one task; leave out -t, -m and --layer")
    for line in found.skipped:
        note(f"skipped: {line}")
    data = json.loads(FORMS["json"](found))
    written = FORMS[form](found)
    if form == "text":
        return Shown({"predictions": data}, lambda: say(*written.removesuffix("\n").split("\n")))
    # For programs, in ASCII: what is written there has escapes of its own.
    return Shown({"predictions": data}, lambda: sys.stdout.write(written))
