"""What a run prints when it is done: the few lines of each lens that a person wants first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sonde.lenses import LENSES
from sonde.results.scores import read_scores


def headline(scores: Path) -> Iterator[str]:
    """Lines for a person from ``scores.parquet``, lens by lens; nothing where there are no scores."""
    table = read_scores(scores)
    for name in table["lens"].unique(maintain_order=True):
        # A lens that a user handed in from a file is not in the folder; its numbers are in the table.
        if name in LENSES.names():
            yield from LENSES.load(name).headline(table.filter(pl.col("lens") == name))
