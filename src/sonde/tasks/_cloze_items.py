"""The statements that quizzes are cut from, as items."""

from __future__ import annotations

import polars as pl

from sonde.corpora import Item


def items_of_quizzes(table: pl.DataFrame) -> list[Item]:
    """The statements that quizzes are cut from, in their order; no piece crosses the ends of an answer.

    Args:
        table: Quizzes in `QUIZ_SCHEMA`.
    """
    first = table.unique("item_id", keep="first", maintain_order=True)
    return [
        Item(
            item_id=row["item_id"],
            text=row["prefix"] + row["answer"] + row["suffix"],
            language=row["language"],
            unit="statement",
            path=row["name"],
            name=row["name"],
            offset=0,
            cluster=row["library"],
            repository=row["library"],
            identifier=row["item_id"],
            cuts=(row["start"], row["end"]),
        )
        for row in first.iter_rows(named=True)
    ]
