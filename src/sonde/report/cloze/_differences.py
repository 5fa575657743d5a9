"""Sentences about paired differences of shares of cloze queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.report._shared.numbers import with_interval
from sonde.results.verdict import why_no_verdict
from sonde.results.words import TOO_LITTLE, nothing_found


def describe_difference(who: str, before: str, row: Mapping[str, Any], after: str = "") -> str:
    """Say in a sentence whether a share of cloze queries is larger or smaller, as far as its interval tells.

    Args:
        who: The model.
        before: What is larger or smaller, up to the verb.
        row: The paired difference of two shares.
        after: What it is compared with.
    """
    low, high = row["ci_low"], row["ci_high"]
    points = f"{with_interval(row, 100, 1)} percentage points"
    if why := why_no_verdict(row):
        of = f"on whether {before} in more or fewer of the cloze queries{after}"
        return f"{who}: {TOO_LITTLE} {of} ({why}): difference {points}."
    if low > 0:
        return f"{who}: {before} in {points} more of the cloze queries{after}."
    if high < 0:
        fewer = {"value": -row["value"], "ci_low": -high, "ci_high": -low}
        points = f"{with_interval(fewer, 100, 1)} percentage points"
        return f"{who}: {before} in {points} fewer of the cloze queries{after}."
    found = nothing_found(row, 100, 1, " percentage points")
    return f"{who}: {found} by which {before} in more or fewer of the cloze queries{after}: {points}."
