"""The scores and observations of surprisal as its sections read them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sonde.report._shared.run import ModelInfo, RunData
from sonde.results.observations import OBSERVATIONS_SCHEMA

LENS = "surprisal"

MIN_COUNT = 20
"""Occurrences below which a slice is not ranked; said on the page."""

BITS_PER_NAT = 1.4426950408889634


def observed(run: RunData, model: ModelInfo, columns: Sequence[str]) -> pl.LazyFrame:
    """The item table of one model, these columns only; empty where the run lacks it or one of them."""
    frame = run.table(LENS, model)
    if frame is None or not set(columns) <= set(frame.collect_schema().names()):
        return pl.DataFrame(schema={name: OBSERVATIONS_SCHEMA[name] for name in columns}).lazy()
    return frame.select(columns)


SURPRISES = ("surprises most", "surprises least")
"""What the highest and the lowest of several means of surprisal do."""
