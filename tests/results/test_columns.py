"""Columns of the files of a run: each has a meaning, and all of them stand on the page that lists them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import polars as pl
import pytest

import sonde
from generators.files import format_columns, format_type
from sonde.results.schema import Columns, to_schema

SOURCE = Path(sonde.__file__).parent
TEMPLATE = Path(__file__).parents[2] / "docs/files.template.md"


def _declared() -> list[str]:
    """The full name of every table's columns."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(("sonde", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        found += [
            f"{module}.{ast.unparse(node.target)}"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Columns"
        ]
    return found


DECLARED = _declared()


def columns_of(name: str) -> Columns:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_declared_table_stands_on_the_page() -> None:
    named = re.findall(r"^\{table: (.+)\}$", TEMPLATE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == len(set(named)) >= 14
    # The columns of two labelled places are part of those of relations.
    assert {*named, "sonde.tasks.engine.task.PAIR_COLUMNS"} == set(DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_every_column_has_a_meaning_in_one_line(name: str) -> None:
    for column, (kind, meaning) in columns_of(name).items():
        assert meaning and meaning == meaning.strip() and not set(meaning) & set("|\n"), column
        assert meaning.count("`") % 2 == 0, column
        assert format_type(kind), column


def test_a_schema_is_that_of_its_columns() -> None:
    columns: Columns = {"a": (pl.List(pl.Int16), "some"), "b": (pl.Binary, "bytes")}
    assert pl.DataFrame(schema=to_schema(columns)).schema == {"a": pl.List(pl.Int16), "b": pl.Binary}
    assert format_columns(columns).splitlines()[2:] == [
        "| `a` | list[i16] | some |",
        "| `b` | binary | bytes |",
    ]
