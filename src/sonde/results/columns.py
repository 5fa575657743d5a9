"""Columns of a table with their types and meanings, declared once: the schema and the docs come from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from polars.datatypes import DataTypeClass

ColumnType = pl.DataType | type[pl.DataType]

Columns = Mapping[str, tuple[ColumnType, str]]
"""Columns in their order, each with its type and, in one line of Markdown, what it holds."""

_NAMES: Mapping[type[pl.DataType] | DataTypeClass, str] = {
    pl.String: "str",
    pl.Boolean: "bool",
    pl.Binary: "binary",
    pl.Int16: "i16",
    pl.Int32: "i32",
    pl.Int64: "i64",
    pl.UInt64: "u64",
    pl.Float32: "f32",
    pl.Float64: "f64",
}


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


def markdown_table(columns: Columns) -> str:
    """The columns as a table of a page.

    >>> print(markdown_table({"tags": (pl.List(pl.Struct({"start": pl.Int64})), "what the user says")}))
    | column | type | meaning |
    |---|---|---|
    | `tags` | list[{start: i64}] | what the user says |
    """
    rows = [f"| `{name}` | {type_name(kind)} | {said} |" for name, (kind, said) in columns.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def type_name(kind: ColumnType | DataTypeClass) -> str:
    """A type in a few letters.

    >>> type_name(pl.List(pl.Int32))
    'list[i32]'
    """
    if isinstance(kind, pl.List):
        return f"list[{type_name(kind.inner)}]"
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(f"{field.name}: {type_name(field.dtype)}" for field in kind.fields) + "}"
    return _NAMES[kind if isinstance(kind, type) else type(kind)]
