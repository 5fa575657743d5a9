"""Columns of a table with their types and meanings, declared once: the schema and the docs come from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

ColumnType = pl.DataType | type[pl.DataType]

Columns = Mapping[str, tuple[ColumnType, str]]
"""Columns in their order, each with its type and, in one line of Markdown, what it holds."""


def scan_files(paths: Path | list[Path]) -> pl.LazyFrame:
    """Parquet files below one another, lazily; nothing in their names is a pattern or a column.

    Unasked, polars reads ``*``, ``?`` and brackets in a path as a pattern.
    """
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


def schema_of(columns: Columns) -> dict[str, ColumnType]:
    """The schema that polars takes.

    >>> schema_of({"nats": (pl.Float32, "surprisal")})
    {'nats': Float32}
    """
    return {name: kind for name, (kind, _) in columns.items()}
