"""Write the page on the files of a run, with the columns that tables declare."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
from polars.datatypes import DataTypeClass

from sonde.results.schema import Columns, ColumnType

DOCS = Path(__file__).parents[1]

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


def render_page() -> str:
    """Return the template with a table in the place of each line ``{table: MODULE.COLUMNS}``."""
    text = (DOCS / "files.template.md").read_text(encoding="utf-8")
    return re.sub(r"^\{table: (.+)\.(\w+)\}$", _table, text, flags=re.MULTILINE)


def _table(named: re.Match[str]) -> str:
    return format_columns(getattr(importlib.import_module(named[1]), named[2]))


def format_columns(columns: Columns) -> str:
    """Return the columns as a table in Markdown.

    >>> print(format_columns({"tags": (pl.List(pl.Struct({"start": pl.Int64})), "what the user says")}))
    | column | type | meaning |
    |---|---|---|
    | `tags` | list[{start: i64}] | what the user says |
    """
    rows = [f"| `{name}` | {format_type(kind)} | {said} |" for name, (kind, said) in columns.items()]
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def format_type(kind: ColumnType | DataTypeClass) -> str:
    """Return a type in a few letters.

    >>> format_type(pl.List(pl.Int32))
    'list[i32]'
    """
    if isinstance(kind, pl.List):
        return f"list[{format_type(kind.inner)}]"
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(f"{field.name}: {format_type(field.dtype)}" for field in kind.fields) + "}"
    return _NAMES[kind if isinstance(kind, type) else type(kind)]
