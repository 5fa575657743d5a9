"""Numbers as a reader sees them: a value, its interval, and whether a verdict may be drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.languages import spelled
from sonde.results.formats import DASH, count, interval, number, with_interval
from sonde.results.verdict import verdict_allowed

__all__ = [
    "DASH",
    "count",
    "interval",
    "list_mistakes",
    "mark",
    "no_verdict",
    "number",
    "readable",
    "spelled",
    "with_interval",
]


def readable(surface: str) -> str:
    """A piece's surface with long runs of one blank sign written as a count.

    >>> readable("↵␣␣␣␣␣␣x")
    '↵␣×6x'
    """
    return re.sub(r"([^\w-])\1{4,}", lambda run: f"{run[1]}×{len(run[0])}", surface)


def no_verdict(row: Mapping[str, Any]) -> bool:
    """Whether a score rests on too little for a verdict; see `sonde.results.verdict`."""
    return not verdict_allowed(row)


_MISTAKES = 3


def list_mistakes(rows: pl.DataFrame) -> str | None:
    """Wrong answers to the examples of one class, each with its share in %, a few in order of their shares.

    Args:
        rows: Shares of the examples of a class in ``value``, with columns ``gold`` and ``said``.

    Returns:
        None where nothing wrong was said.
    """
    wrong = rows.filter((pl.col("said") != pl.col("gold")) & (pl.col("value") > 0))
    listed = wrong.sort("value", descending=True, maintain_order=True).head(_MISTAKES)
    texts = [f"{row['said']} {with_interval(row, 100, 1)}" for row in listed.iter_rows(named=True)]
    return ", ".join([*texts, *(["…"] if wrong.height > _MISTAKES else [])]) or None


def mark(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a chart draws of a share: its value with the interval (also in words, in %), and its size."""
    return {
        "value": row["value"],
        "low": row["ci_low"],
        "high": row["ci_high"],
        "reading": with_interval(row, 100, 1),
        "few": no_verdict(row),
        "n": row["n"],
    }
