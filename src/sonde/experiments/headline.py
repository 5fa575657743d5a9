"""What a run prints when it is done: the few lines of each lens that a person wants first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sonde.lenses import LENSES
from sonde.results.findings import findings, sentence
from sonde.results.scores import read_scores
from sonde.results.words import plain_words


def headline(scores: Path) -> Iterator[str]:
    """Lines for a person from ``scores.parquet``, lens by lens; nothing where there are no scores."""
    table = read_scores(scores)
    for name in table["lens"].unique(maintain_order=True):
        rows = table.filter(pl.col("lens") == name)
        # A lens that a user handed in from a file is not in the folder; its numbers are in the table.
        own = list(LENSES.load(name).headline(rows)) if name in LENSES.names() else []
        yield from own or _from_scores(name, rows)


def _from_scores(lens: str, rows: pl.DataFrame) -> Iterator[str]:
    """What every lens can say; nothing where it has no number."""
    found = findings(rows)
    if found:
        yield ""
        yield f"{plain_words(lens)}:"
    for finding in found:
        yield f"  {sentence(finding)}"
