"""What a lens answered to single examples that were tested, kept beside its scores."""

from __future__ import annotations

import polars as pl

from sonde.results.columns import Columns, schema_of

ANSWERS_COLUMNS: Columns = {
    "task": (pl.String, "the task"),
    "item_id": (pl.String, "the input that the example is in"),
    "start": (pl.Int32, "first character of what was asked about"),
    "end": (pl.Int32, "end of its characters, exclusive"),
    "whole": (pl.Boolean, "it is the whole text"),
    "layer": (pl.Int16, "the layer that was chosen on validation, where there are layers"),
    "said": (
        pl.String,
        "the class that was answered; no probe was trained on the cluster of its example",
    ),
    "label": (pl.String, "the right class"),
}
"""Columns of ``answers/lens=LENS/model=MODEL/*.parquet``, one row a tested example."""

ANSWERS = schema_of(ANSWERS_COLUMNS)
