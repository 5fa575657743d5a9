"""Extremes of several numbers: the highest or lowest, and those that cannot be told from it.

A sentence that names an extreme goes through here. What has the highest value is the highest in truth only if
all others are surely below it, at a level that holds for all comparisons together: multiple comparisons with
the best (Gupta 1965, Hsu 1981). The set that is returned holds the true extreme in at least 95 of 100 draws;
a set of one is an extreme that may be named alone.

A report has no contributions of single clusters, so that a difference takes the distances from both values to
the ends of their intervals (MOVER, Zou and Donner 2008), as of numbers that are independent: numbers over the
same clusters mostly rise and fall together, and their differences vary less than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from sonde.results.text_format import join_names
from sonde.stats.intervals import LEVEL
from sonde.stats.power import POWER, degrees_of_freedom
from sonde.stats.verdict import verdict_allowed

Row = Mapping[str, Any]


_LISTED = 3
"""Numbers of a set that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """Numbers among which the highest or lowest is.

    Attributes:
        rows: Scores that cannot be told from the first; the first (by value) leads.
        among: Number of scores compared; those without a verdict do not count.
        n_without_verdict: Number of scores that allow no verdict.
        detectable: Lead over all others that would be found in four of five samples.
    """

    rows: tuple[Row, ...]
    among: int
    unjudged: int
    detectable: float = math.nan

    @property
    def is_single(self) -> bool:
        """Return whether one number is the extreme."""
        return len(self.rows) == 1

    @property
    def is_told(self) -> bool:
        """Return whether any number is surely not the extreme."""
        return len(self.rows) < self.among


def find_extreme(
    rows: Iterable[Row], *, largest: bool = True, ends: int = 1, of_one_whole: bool = False
) -> Extreme | None:
    """Find the highest number and those that cannot be told from it.

    Args:
        rows: Scores with ``value, ci_low, ci_high, df`` and the fields that `sonde.stats.verdict` needs.
        largest: Whether to find the highest, else the lowest.
        ends: 2 where a sentence names both ends, so that both are right in at least 95 of 100 samples.
        are_shares: Whether the numbers are shares that add up to one, of which one falls where another rises:
            their distances are added up, as of numbers that may depend on each other in any way.

    Returns:
        None where fewer than two numbers allow a verdict.
    """
    held = list(rows)
    judged = [row for row in held if verdict_allowed(row) and row["ci_low"] < row["ci_high"]]
    if len(judged) < 2:
        return None
    judged.sort(key=lambda row: -row["value"] if largest else row["value"])
    sign = 1.0 if largest else -1.0
    values = np.array([sign * row["value"] for row in judged])
    low, high = _distances(judged, comparisons=(len(judged) - 1) * ends)
    down, up = (low, high) if largest else (high, low)
    # The distance of each number (a column) below each other (a row), and what chance allows of it.
    behind = values[:, None] - values
    allowed = down[:, None] + up if of_one_whole else np.hypot(down[:, None], up)
    kept = np.flatnonzero((behind <= allowed).all(axis=0))
    # Of the first: what chance allows of each other's lead, and what the power asks for beyond it.
    df = np.array([max(degrees_of_freedom(row), 1.0) for row in judged])
    errors = (low + high) / 2 / stdtrit(df, 1 - (1 - LEVEL) / 2 / ((len(judged) - 1) * ends))
    reach = allowed[0, 1:] + stdtrit(np.minimum(df[0], df[1:]), POWER) * np.hypot(errors[0], errors[1:])
    return Extreme(
        rows=tuple(judged[place] for place in kept.tolist()),
        among=len(judged),
        unjudged=len(held) - len(judged),
        detectable=float(reach.max()),
    )


def _distances(
    rows: Sequence[Row], comparisons: int
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Return the distances from each value to the ends of its interval, widened for several comparisons."""
    wider = np.array([bonferroni_factor(row, comparisons) for row in rows])
    low, high = (
        np.array([abs(row[end] - row["value"]) for row in rows]) * wider for end in ("ci_low", "ci_high")
    )
    return low, high


def bonferroni_factor(row: Row, comparisons: int) -> float:
    """Return the factor by which an interval is widened so that several hold at once (Bonferroni)."""
    tail = (1 - LEVEL) / 2
    df = max(degrees_of_freedom(row), 1.0)
    return float(stdtrit(df, 1 - tail / max(comparisons, 1)) / stdtrit(df, 1 - tail))


def widen(row: Row, among: int) -> dict[str, Any]:
    """Return a score with the interval that holds for the best of several.

    Args:
        row: The score.
        n_comparisons: Number of scores of which it is the best.
    """
    if among < 2 or row["ci_low"] is None or row["ci_high"] is None:
        return dict(row)
    wider = bonferroni_factor(row, among)
    ends = {end: row["value"] + wider * (row[end] - row["value"]) for end in ("ci_low", "ci_high")}
    return {**row, **ends}


def split_at(
    rows: Iterable[Row], threshold: float
) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
    """Split scores into those surely above a threshold, those surely below it, and the others.

    Args:
        rows: Scores; those that allow no verdict are among the others.
        threshold: Threshold of the value. Each interval is widened so that all of them hold at once.
    """
    held = list(rows)
    above: list[Row] = []
    below: list[Row] = []
    neither: list[Row] = []
    for row in held:
        if not verdict_allowed(row):
            neither.append(row)
            continue
        wide = widen(row, len(held))
        low, high = wide["ci_low"], wide["ci_high"]
        if low is not None and low > threshold:
            above.append(row)
        elif high is not None and high < threshold:
            below.append(row)
        else:
            neither.append(row)
    return tuple(above), tuple(below), tuple(neither)


def list_names(names: Sequence[str], shown: int = _LISTED) -> str:
    """Join names for a sentence; beyond ``maximum`` the rest is counted.

    >>> shorten_names(["a"]), shorten_names(["a", "b", "c"]), shorten_names(["a", "b", "c", "d", "e"])
    ('a', 'a, b and c', 'a, b, c and 2 others')
    """
    if len(names) <= shown:
        return join_names(names)
    rest = len(names) - shown
    return f"{', '.join(names[:shown])} and {rest} other{'s' * (rest > 1)}"


def list_layers(layers: Iterable[int]) -> str:
    """Join layers for a sentence, runs of them as ranges.

    >>> list_layers([3]), list_layers([6, 3, 4, 5]), list_layers([0, 2, 3]), list_layers([0, 1, 2, 4])
    ('layer 3', 'layers 3 to 6', 'layers 0 and 2 to 3', 'layers 0 to 2 and 4')
    """
    runs: list[list[int]] = []
    for layer in sorted(set(layers)):
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    named = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    several = sum(map(len, runs)) > 1
    return f"layer{'s' * several} {join_names(named)}"


def describe_extreme(
    extreme: Extreme, label: Callable[[Row], str], figures: Callable[[Row], str], *, verb: str, end: str
) -> str:
    """Describe an extreme in a clause.

    Args:
        extreme: The extreme.
        label: Returns the name of a score.
        figures: Formats a score with interval and unit.
        verb: Verb of the extreme, for example ``"surprises most"``.
        end: End of the ranking, for example ``"top"``.

    Returns:
        ``"X (7.1 [6.8, 7.4] bits) surprises most"``, or ``"X (...), Y (...) and 3 others cannot be told apart
        at the top"``, or ``"which surprises most cannot be told (a lead of 0.4 bits would have been)"``.
    """
    if not extreme.is_told:
        return f"which {verb} cannot be told{_lead_told(extreme, figures)}"
    names = [f"{label(row)} ({figures(row)})" for row in extreme.rows]
    if extreme.is_single:
        return f"{names[0]} {verb}"
    return f"{list_names(names)} cannot be told apart at the {end}"


def _lead_told(extreme: Extreme, figures: Callable[[Row], str]) -> str:
    """Describe the lead that would have been found, in brackets after a blank."""
    lead = extreme.detectable
    if not math.isfinite(lead):
        return ""
    row = {**extreme.rows[0], "value": lead, "ci_low": None, "ci_high": None}
    return f" (a lead of {figures(row)} would have been)"


def describe_ends(
    rows: Iterable[Row],
    label: Callable[[Row], str],
    figures: Callable[[Row], str],
    *,
    noun: str,
    verbs: tuple[str, str],
    unit: str = "",
) -> str:
    """Describe the highest and the lowest of several scores in a sentence, without its full stop.

    Args:
        rows: Scores.
        label: Returns the name of a score.
        figures: Formats a score with its interval.
        noun: Plural noun of the scores.
        verbs: Verbs of the highest and of the lowest.
        unit: Unit of the scores.

    Returns:
        Empty where fewer than two numbers allow a verdict.
    """
    held = list(rows)
    highest = find_extreme(held, ends=2)
    lowest = find_extreme(held, largest=False, ends=2)
    if highest is None or lowest is None:
        return ""
    if not highest.is_told and not lowest.is_told:
        lead = _lead_told(max(highest, lowest, key=lambda extreme: extreme.detectable), figures)
        return (
            f"Which of {count_compared(highest, noun)} {verbs[0]}, and which {verbs[1]}, cannot be told{lead}"
        )
    clauses = [
        describe_extreme(highest, label, figures, verb=verbs[0], end="top"),
        describe_extreme(lowest, label, figures, verb=verbs[1], end="bottom"),
    ]
    start = f"In {unit}, of" if unit else "Of"
    return f"{start} {count_compared(highest, noun)}, {'; '.join(clauses)}"


def count_compared(extreme: Extreme, noun: str) -> str:
    """Format the number of scores compared, for example ``"the 18 constructs that allow a verdict"``."""
    return f"the {extreme.among:,} {noun}{' that allow a verdict' if extreme.unjudged else ''}"
