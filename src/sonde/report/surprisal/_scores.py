"""The scores and observations of surprisal as its sections read them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sonde.report._shared.numbers import count, spelled, with_interval
from sonde.report._shared.run import ModelInfo, RunData
from sonde.results.dimensions import dimensions_are
from sonde.results.observations import FIRST, FIRST_PART, OBSERVATIONS_SCHEMA

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


def first_rows(run: RunData) -> pl.DataFrame:
    """What the first subwords of texts cost, a row a model and language that sets them apart."""
    return run.scores(lens=LENS, metrics=["bits"], where=dimensions_are(dict([FIRST_PART])))


def is_first(run: RunData, model: ModelInfo) -> pl.Expr:
    """Whether a row of `observed`, which needs the column ``context``, is in none of the model's slices."""
    return FIRST if model.name in first_rows(run)["model"] else pl.lit(value=False)


def first_notes(run: RunData) -> list[str]:
    """What stands below a table of slices: how many subwords are in none of them, and what these cost."""
    return [
        f"{row['shown']}, {spelled(row['language'])}: the subword that begins a text, before which the model "
        f"has nothing of it, is in no row; these {count(row['n'])} cost {with_interval(row)} bits each."
        for row in first_rows(run).sort("shown", "language").iter_rows(named=True)
    ]


SURPRISES = ("surprises most", "surprises least")
"""What the highest and the lowest of several means of surprisal do."""
