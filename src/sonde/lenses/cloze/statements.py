"""Candidate statements: the statement of a query with each name that competes for its level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.corpora import Item
from sonde.tasks._cloze_items import statement_item
from sonde.tasks._cloze_queries import prompt_id


def candidate_ids(row: Mapping[str, Any]) -> list[str]:
    """Ids of the statements of a query, the right one first."""
    return [prompt_id(text, row["language"]) for text in candidate_texts(row)]


def candidate_texts(row: Mapping[str, Any]) -> list[str]:
    """The statements of a query, the right one first."""
    return [row["prefix"] + name + row["suffix"] for name in row["candidates"]]


def statements(labels: pl.DataFrame) -> list[Item]:
    """The distinct statements of all queries, as items; each is scored once."""
    found: dict[str, Item] = {}
    for row in labels.iter_rows(named=True):
        for number, text in zip(candidate_ids(row), candidate_texts(row), strict=True):
            if number not in found:
                found[number] = statement_item(row, number, text)
    return list(found.values())
