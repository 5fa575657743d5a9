"""The statements that queries are cut from, as items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.corpora import Item

_OF_RUNS = ("paths", "users", "release", "majority", "unigram", "spelling")
"""Columns that are no labels: what an answer without knowledge ranks, and where a name stands, as numbers."""


def statement_item(row: Mapping[str, Any], identifier: str, text: str, *, cuts: tuple[int, ...] = ()) -> Item:
    """A statement about the name of a query as an item.

    Args:
        row: The query, in `QUERY_SCHEMA`.
        identifier: Id of the text.
        text: The statement.
        cuts: Characters where no piece may go on.
    """
    return Item(
        item_id=identifier,
        text=text,
        language=row["language"],
        unit="statement",
        path=row["name"],
        name=row["name"],
        offset=0,
        cluster=row["library"],
        repository=row["library"],
        identifier=identifier,
        cuts=cuts,
    )


def items_of_queries(table: pl.DataFrame) -> list[Item]:
    """The statements that queries are cut from, in their order; no piece crosses the ends of an answer.

    Args:
        table: Queries in `QUERY_SCHEMA`.
    """
    first = table.unique("item_id", keep="first", maintain_order=True)
    return [
        statement_item(
            row,
            row["item_id"],
            row["prefix"] + row["answer"] + row["suffix"],
            cuts=(row["start"], row["end"]),
        )
        for row in first.iter_rows(named=True)
    ]


def listed(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Queries as ``sonde label`` writes them, without what only a run reads."""
    return table.drop(_OF_RUNS).to_dicts()
