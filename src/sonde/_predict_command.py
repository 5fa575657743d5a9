"""``sonde predict``: what the probe of a run says of other files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def print_predictions(
    place: Path, files: Sequence[Path], task: str | None, model: str | None, layer: int | None, form: str
) -> None:
    """Print what the probe of a run, or a fine-tuned model, says; what was skipped goes to standard error.

    Raises:
        UnknownNameError: There is no such format.
        SondeError: See `sonde.Run.predict` and `sonde.facade.tuned.predict_tuned`.
    """
    from sonde.base.errors import UnknownNameError, UsageError
    from sonde.facade.finished import Run
    from sonde.facade.predicted import FORMS
    from sonde.facade.tuned import is_tuned, predict_tuned

    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS)
    if is_tuned(place):
        if task is not None or model is not None or layer is not None:
            raise UsageError(
                f"{str(place)!r} is a fine-tuned model of one task; leave out -t, -m and --layer"
            )
        found = predict_tuned(place, files)
    else:
        found = Run(place).predict(files, task=task, model=model, layer=layer)
    for line in found.skipped:
        sys.stderr.write(f"skipped: {line}\n")
    sys.stdout.write(FORMS[form](found))
