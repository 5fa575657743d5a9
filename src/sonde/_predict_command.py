"""``sonde predict``: what the probe of a run says of other files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def print_predictions(
    run: Path, files: Sequence[Path], task: str | None, model: str | None, layer: int | None, form: str
) -> None:
    """Print what `sonde.Run.predict` finds in one of its formats; what was skipped goes to standard error.

    Raises:
        UnknownNameError: There is no such format.
        SondeError: See `sonde.Run.predict`.
    """
    from sonde.base.errors import UnknownNameError
    from sonde.facade.finished import Run
    from sonde.facade.predicted import FORMS

    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS)
    found = Run(run).predict(files, task=task, model=model, layer=layer)
    for line in found.skipped:
        sys.stderr.write(f"skipped: {line}\n")
    sys.stdout.write(FORMS[form](found))
