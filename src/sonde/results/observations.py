"""The row schema of the surprisal lens's item table; docs/design.md says what each column means."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

OBSERVATIONS_SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "item_id": pl.String,
    "file": pl.String,
    "cluster": pl.String,
    "language": pl.String,
    "position": pl.Int32,
    "start": pl.Int32,
    "end": pl.Int32,
    "subword": pl.String,
    "subword_id": pl.Int32,
    "nats": pl.Float32,
    "rank": pl.Int32,
    "entropy": pl.Float32,
    "context": pl.Int32,
    "bytes": pl.Int16,
    "text_characters": pl.Int32,
    "text_bytes": pl.Int32,
    "covered": pl.Int32,
    "file_nats": pl.Float32,
    "file_rank": pl.Int32,
    "file_entropy": pl.Float32,
    "file_context": pl.Int32,
    "file_top_nats": pl.Float32,
    "kind": pl.String,
    "role": pl.String,
    "tag": pl.String,
    "merged": pl.Int16,
    "token": pl.Int32,
    "word": pl.String,
    "construct": pl.String,
    "ancestors": pl.String,
    "origin": pl.String,
    "origin_part": pl.String,
    "call_form": pl.String,
    "user_tag": pl.String,
    "top": pl.List(pl.String),
    "top_nats": pl.List(pl.Float32),
}

FILE_COLUMNS = tuple(name for name in OBSERVATIONS_SCHEMA if name.startswith("file_"))
"""What a subword cost behind the text of its file; null where that was not asked for."""
