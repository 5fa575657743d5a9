"""What the page of a run with several models says of how they compare: its own comparison, read back."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from sonde.base.errors import InputError
from sonde.report._comparison.sections import ComparisonSection, ReadComparison, parts
from sonde.report._drawing.clean import cleaned
from sonde.report._shared.plot import Figure
from sonde.report._shared.run import RunData
from sonde.results.columns import scan_files
from sonde.store.rundir import RunDirectory

FOLDER = "comparison"
"""Where a run keeps the comparison of its models."""


def read_compared(directory: Path) -> ReadComparison:
    """The finished files of a comparison.

    Raises:
        InputError: There is none in the folder, or it cannot be read.
        StoreError: A file of it is not what was written.
    """
    table, facts = directory / "comparison.parquet", directory / "comparison.json"
    files = RunDirectory(directory)
    if not (files.holds(table) and files.holds(facts)):
        raise InputError(f"{directory}: no comparison here; `sonde compare DIR` makes one")
    moved, series = directory / "moved.parquet", directory / "series.parquet"
    try:
        held = json.loads(facts.read_text(encoding="utf-8"))
        return ReadComparison(
            differences=scan_files(table).collect(),
            comparisons=held["comparisons"],
            of=str(held.get("of") or ""),
            moved=scan_files(moved).collect() if files.holds(moved) else None,
            series=scan_files(series).collect() if files.holds(series) else None,
        )
    except (ValueError, KeyError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{directory}: the comparison cannot be read ({reason}); compare again") from error


def models_compared(run: RunData) -> list[tuple[ComparisonSection, Figure]]:
    """The sections of a run's own comparison; none where there is none of its present scores."""
    try:
        compared = read_compared(run.directory.root / FOLDER)
    except InputError:
        return []
    if compared.of != run.summary.get("scores_key"):
        return []
    return [(part, cleaned(part.figure)) for part in parts(compared)]
