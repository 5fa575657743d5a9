"""Numbers as a reader sees them: a value, its interval, and whether a verdict may be drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sonde.report._shared.plot import Cell
from sonde.results.verdict import verdict_allowed

DASH = "–"


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals and thin thousands; a dash where there is none.

    >>> number(1234.5, 1), number(-0.25), number(None), number(float("nan"))
    ('1,234.5', '−0.25', '–', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:,.{digits}f}".replace("-", "−")


def count(value: float | None) -> str:
    """A whole number with separators."""
    return number(value, 0)


def interval(row: Mapping[str, Any], scale: float = 1.0, digits: int = 2) -> str:
    """The 95 % interval of a score row, or a dash."""
    low, high = row.get("ci_low"), row.get("ci_high")
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return DASH
    return f"[{number(low * scale, digits)}, {number(high * scale, digits)}]"


def with_interval(row: Mapping[str, Any], scale: float = 1.0, digits: int = 2) -> str:
    """Value and interval, for example ``1.43 [1.39, 1.47]``."""
    value = number(row["value"] * scale, digits)
    return value if (bounds := interval(row, scale, digits)) == DASH else f"{value} {bounds}"


def spelled(language: str) -> str:
    """A language as prose writes it."""
    return language.capitalize()


def readable(surface: str) -> str:
    """A piece's surface with long runs of one blank sign written as a count.

    >>> readable("↵␣␣␣␣␣␣x")
    '↵␣×6x'
    """
    return re.sub(r"([^\w-])\1{4,}", lambda run: f"{run[1]}×{len(run[0])}", surface)


def no_verdict(row: Mapping[str, Any]) -> bool:
    """Whether a score rests on too little for a verdict; see `sonde.results.verdict`."""
    return not verdict_allowed(row)


def clusters(row: Mapping[str, Any]) -> str:
    """Number of clusters, how many of equal size they are worth, and whether that allows no verdict."""
    effective = row.get("effective_clusters")
    worth = f" (worth {number(effective, 1)})" if effective is not None else ""
    return f"{count(row['n_clusters'])}{worth}{', no verdict' if no_verdict(row) else ''}"


def score_cells(row: Mapping[str, Any], scale: float = 1.0, digits: int = 2) -> tuple[Cell, Cell, Cell, Cell]:
    """Value, interval, n and clusters of a score row as table cells."""
    return (
        Cell(number(row["value"] * scale, digits), row["value"]),
        Cell(interval(row, scale, digits), row.get("ci_low")),
        Cell(count(row["n"]), row["n"]),
        Cell(clusters(row), row["n_clusters"]),
    )


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
