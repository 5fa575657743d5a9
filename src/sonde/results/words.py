"""How a number, its interval and its standing are written where plain text is printed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sonde.results.detectable import detectable_of
from sonde.results.formats import DASH, NO_VARIATION, digits_shown, number, rounded_ends, with_interval
from sonde.results.verdict import why_no_verdict

NO_DIFFERENCE = "no difference found"
"""What is said of a number that allows a verdict and is not told from what it is held against."""

TOO_LITTLE = "too little data"
"""What is said of a number that allows no verdict; its estimate stands beside it."""

_MOST_DIGITS = 8


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
    if not math.isfinite(row["value"]):
        return DASH
    value = f"{scale * row['value']:{sign}z.{digits_shown(row, scale, digits)}f}"
    return f"{value} {ends}" if (ends := bounds(row, scale, digits, sign)) else value


def standing(row: Mapping[str, Any]) -> str:
    """Why a number allows no verdict, in brackets behind a blank; empty where it allows one."""
    return in_brackets(too_little(row))


def too_little(row: Mapping[str, Any]) -> str:
    """Why a number allows no verdict, as it is said beside its estimate; empty where it does."""
    why = why_no_verdict(row)
    return f"{TOO_LITTLE}: {why}" if why else ""


def in_brackets(text: str) -> str:
    """Return a text in brackets behind a blank; nothing of an empty one."""
    return f" ({text})" if text else ""


def would_be_found(difference: float, scale: float = 1.0, digits: int = 1, unit: str = "") -> str:
    """Return what would have been found where no difference was, without a full stop.

    Args:
        difference: What four of five such samples would show (`sonde.results.detectable`).
        scale: By which it is multiplied.
        digits: Decimals; more of a difference that would be printed as none.
        unit: What stands behind it.

    Returns:
        Empty where it is not known.

    >>> would_be_found(0.029, 100, unit=" points"), would_be_found(0.0004, digits=2), would_be_found(0.0)
    ('2.9 points or more would have been found', '0.0004 or more would have been found', 'no variation')
    """
    if not math.isfinite(difference):
        return ""
    shown = abs(difference * scale)
    if not shown:
        return NO_VARIATION
    digits = max(digits, -math.floor(math.log10(shown)))
    return f"{number(shown, min(digits, _MOST_DIGITS))}{unit} or more would have been found"


def nothing_found(
    row: Mapping[str, Any], scale: float = 1.0, digits: int = 1, unit: str = "", among: float = 1
) -> str:
    """Say of a paired difference that allows a verdict and is not told from 0 what would have been found.

    >>> row = {"value": 0.0, "ci_low": -0.02, "ci_high": 0.02, "df": 29.0}
    >>> nothing_found(row, 100, unit=" points")
    'no difference found (2.8 points or more would have been found)'
    """
    told = would_be_found(detectable_of(row, among), scale, digits, unit)
    return f"{NO_DIFFERENCE}{in_brackets(told)}"


def nothing_found_in(
    rows: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    digits: int = 1,
    unit: str = "",
    among: float = 1,
) -> list[str]:
    """Say in how many places no difference was found, and what would have been in each; empty without any.

    Args:
        rows: Differences that allow a verdict and are not told from what they are held against.
        scale: By which they are multiplied.
        digits: Decimals.
        unit: What stands behind what would have been found.
        among: Of how many each is one, where all hold at once.
    """
    if not rows:
        return []
    sizes = [size for row in rows if math.isfinite(size := detectable_of(row, among))]
    told = would_be_found(max(sizes, default=math.nan), scale, digits, unit)
    return [f"{NO_DIFFERENCE} in {len(rows)}{in_brackets(told and told + ' in each' * (len(rows) > 1))}"]


def standing_of_difference(
    row: Mapping[str, Any], scale: float = 1.0, digits: int = 1, unit: str = ""
) -> str:
    """Why a difference allows no verdict, or that none was found, in brackets; empty where one was."""
    if why := too_little(row):
        return in_brackets(why)
    if not row["ci_low"] <= 0 <= row["ci_high"]:
        return ""
    told = would_be_found(detectable_of(row), scale, digits, unit)
    return in_brackets(f"{NO_DIFFERENCE}: {told}" if told else NO_DIFFERENCE)


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
