"""How a number, its interval and its standing are written where plain text is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sonde.results.formats import NO_VARIATION, digits_shown, rounded_ends, with_interval
from sonde.results.verdict import why_no_verdict


def bounds(row: Mapping[str, Any], scale: float = 1.0, digits: int = 1, sign: str = "") -> str:
    """The interval of a score row, empty where none is known.

    Args:
        row: A row of ``scores.parquet``.
        scale: By which both ends are multiplied.
        digits: Decimals; more where both ends would be printed alike (`formats.digits_shown`).
        sign: ``"+"`` writes the sign of positive numbers too.

    >>> bounds({"value": 0.3, "ci_low": 0.25, "ci_high": 0.5}, 100)
    '[25.0, 50.0]'
    >>> bounds({"value": 0.0, "ci_low": 0.0, "ci_high": 0.0})
    '(no variation)'
    """
    ends = rounded_ends(row, scale, digits)
    if ends is None:
        return f"({NO_VARIATION})" if row["ci_low"] is not None and row["ci_low"] == row["ci_high"] else ""
    shown = digits_shown(row, scale, digits)
    return f"[{ends[0]:{sign}z.{shown}f}, {ends[1]:{sign}z.{shown}f}]"


def figures(row: Mapping[str, Any], scale: float = 1.0, digits: int = 1, sign: str = "") -> str:
    """A number with its interval, where plain text is printed; arguments as of `bounds`.

    >>> figures({"value": 0.3, "ci_low": 0.25, "ci_high": 0.5}, 100, sign="+")
    '+30.0 [+25.0, +50.0]'
    """
    value = f"{scale * row['value']:{sign}z.{digits_shown(row, scale, digits)}f}"
    return f"{value} {ends}" if (ends := bounds(row, scale, digits, sign)) else value


def standing(row: Mapping[str, Any]) -> str:
    """Why a number allows no verdict, in brackets behind a blank; empty where it allows one."""
    why = why_no_verdict(row)
    return f" (no verdict: {why})" if why else ""


def digits_of(row: Mapping[str, Any]) -> int:
    """Decimals that give a number of unknown unit, or half of its interval, three figures; at most six.

    >>> [digits_of({"value": value, "ci_low": None, "ci_high": None}) for value in (1234.5, 12.5, 0.034, 0.0)]
    [0, 1, 4, 2]
    """
    low, high = row["ci_low"], row["ci_high"]
    half = 0.0 if low is None or high is None or not math.isfinite(high - low) else (high - low) / 2
    size = max(abs(row["value"]), half)
    return 2 if not size or not math.isfinite(size) else min(6, max(0, 2 - math.floor(math.log10(size))))


def in_figures(row: Mapping[str, Any]) -> str:
    """A number of unknown unit with its interval, both with the same decimals.

    >>> in_figures({"value": 0.25, "ci_low": 0.2, "ci_high": 0.3})
    '0.250 [0.200, 0.300]'
    """
    return with_interval(row, digits=digits_of(row)).replace("−", "-")


_LONGEST = 60


def plain_words(name: object) -> str:
    r"""A name for a sentence: one line without control characters, cut where it is long.

    >>> plain_words("random_weights"), ascii(plain_words("a\x1b[0m"))
    ('random weights', "'a\\ufffd[0m'")
    """
    text = str(name).replace("_", " ") if str(name).isidentifier() else str(name)
    shown = "".join(sign if sign.isprintable() else "\ufffd" for sign in text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}\u2026"
