"""Columns of a table with their types and meanings, declared once: the schema and the docs come from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

ColumnType = pl.DataType | type[pl.DataType]

Columns = Mapping[str, tuple[ColumnType, str]]
"""Columns in their order, each with its type and, in one line of Markdown, what it holds."""

_EARLIER: Mapping[str, tuple[str, frozenset[str]]] = {
    "quiz_id": ("query_id", frozenset()),
    "arm": ("method", frozenset({"task", "seed", "variant"})),
}
"""Earlier names of columns, with the present one and with the columns beside which they mean it."""


def scan_files(paths: Path | list[Path]) -> pl.LazyFrame:
    """Parquet files below one another, lazily; nothing in their names is a pattern or a column.

    Unasked, polars reads ``*``, ``?`` and brackets in a path as a pattern.
    """
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


def scan_tables(paths: Sequence[Path]) -> pl.LazyFrame:
    """Tables of a run below one another, lazily, their columns by the names that they have now.

    Runs of earlier versions of sonde have some columns by earlier names.
    """
    found: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    for path in paths:
        held = scan_files(path).collect_schema().keys()
        renamed = [(name, now) for name, (now, beside) in _EARLIER.items() if name in held and beside <= held]
        found.setdefault(tuple(renamed), []).append(path)
    frames = [scan_files(some).rename(dict(renamed)) for renamed, some in found.items()]
    return pl.concat(frames, how="diagonal") if len(frames) != 1 else frames[0]


def schema_of(columns: Columns) -> dict[str, ColumnType]:
    """The schema that polars takes.

    >>> schema_of({"nats": (pl.Float32, "surprisal")})
    {'nats': Float32}
    """
    return {name: kind for name, (kind, _) in columns.items()}
