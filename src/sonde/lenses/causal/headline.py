"""What a run prints of interventions."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """What the model uses, and what it merely holds."""
    return iter(())
