"""How a number's interval and standing are written where plain text is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.results.verdict import why_no_verdict


def bounds(row: Mapping[str, Any], scale: float = 1.0, digits: int = 1, sign: str = "") -> str:
    """The interval of a score row, empty where none is known.

    Args:
        row: A row of ``scores.parquet``.
        scale: By which both ends are multiplied.
        digits: Decimals.
        sign: ``"+"`` writes the sign of positive numbers too.

    >>> bounds({"ci_low": 0.25, "ci_high": 0.5}, 100)
    '[25.0, 50.0]'
    """
    low, high = row["ci_low"], row["ci_high"]
    if low is None or high is None:
        return ""
    return f"[{scale * low:{sign}.{digits}f}, {scale * high:{sign}.{digits}f}]"


def standing(row: Mapping[str, Any]) -> str:
    """Why a number allows no verdict, in brackets behind a blank; empty where it allows one."""
    why = why_no_verdict(row)
    return f" (no verdict: {why})" if why else ""
