"""The command ``sonde gate``: is a checkpoint worse than the last accepted one of its training?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput, with_output


@with_output("reference", "runs")
def gate(
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="Run that the training is compared with.")
    ],
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Runs of checkpoints, in the order of the training."),
    ],
    looks: Annotated[
        int | None,
        typer.Option(
            "--looks", min=1, metavar="N", help="Number of looks at the whole training, if it is known."
        ),
    ] = None,
    least: Annotated[
        list[str] | None,
        typer.Option(
            "--least",
            metavar="METRIC=SIZE",
            help="Smallest loss that matters, in the unit of the metric (may be repeated; default 0.02 for "
            "bits, 0.01 for shares).",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="FILE", help="File that counts the looks; default: next to REFERENCE."
        ),
    ] = None,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Compare later checkpoints with these, whatever the verdict on them."),
    ] = False,
) -> CommandOutput:
    """Check the checkpoints of a training for losses; exit code 1 if a loss is sure.

    Each is compared with the last accepted one, by construct. However often you look, the probability of any
    false alarm in the whole training is at most 5 %.
    """
    from sonde.api.gate import gate as look_at_checkpoints
    from sonde.base.progress_display import make_progress
    from sonde.stats.verdict import parse_minimum_effects

    report = look_at_checkpoints(
        reference,
        *runs,
        looks=looks,
        least=parse_minimum_effects(least or ()),
        state=state,
        accept=accept,
        progress=make_progress(),
    )
    data = {
        "state": report.path,
        "verdict": report.verdict,
        "looks": report.looks,
        "numbers": report.numbers.to_dicts(),
    }
    return CommandOutput(
        data,
        lambda: print_lines(*report.lines(), f"state: {report.path}"),
        exit_code=int(report.verdict == "fail"),
    )
