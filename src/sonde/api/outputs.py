"""Output files of a finished run: page, figures and hidden states."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sonde.api.hidden_states import write_all_features
from sonde.base.progress import Progress
from sonde.experiments.progress import Outcome
from sonde.report import save_figures, write_report


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Files that are written from the scores of a run.

    Attributes:
        page: The page.
        figures: Every chart as files.
        features: The states of probed tasks as safetensors.
    """

    page: bool = True
    figures: bool = False
    features: bool = False


def write_outputs(options: OutputOptions, outcome: Outcome, folder: Path, progress: Progress) -> Path | None:
    """Write what is wanted into the folder of a run.

    Returns:
        The page; None where it was not wanted.
    """
    page = None
    if options.page:
        with progress.stage("reporting", 1) as advance:
            page = write_report(folder, progress.note)
            advance()
    if options.figures:
        with progress.stage("drawing figures", 1) as advance:
            save_figures(folder, note=progress.note)
            advance()
    if options.features:
        outcome.files += write_all_features(folder, progress)
    return page
