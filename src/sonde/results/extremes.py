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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from sonde.base.formatting import join_names, shorten_names
from sonde.results.text_format import Row
from sonde.stats.intervals import LEVEL
from sonde.stats.power import POWER, degrees_of_freedom
from sonde.stats.verdict import allows_verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """Numbers among which the highest or lowest is.

    Attributes:
        rows: Scores that cannot be told from the first; the first (by value) leads.
        n_compared: Number of scores compared; those without a verdict do not count.
        n_without_verdict: Number of scores that allow no verdict.
        detectable: Lead over all others that would be found in four of five samples.
    """

    rows: tuple[Row, ...]
    n_compared: int
    n_without_verdict: int
    detectable: float = math.nan

    @property
    def is_single(self) -> bool:
        """Return whether one number is the extreme."""
        return len(self.rows) == 1

    @property
    def is_distinguishable(self) -> bool:
        """Return whether any number is surely not the extreme."""
        return len(self.rows) < self.n_compared


def find_extreme(
    rows: Iterable[Row], *, largest: bool = True, ends: int = 1, are_shares: bool = False
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
    scores = list(rows)
    candidates = [row for row in scores if allows_verdict(row) and row["ci_low"] < row["ci_high"]]
    if len(candidates) < 2:
        return None
    candidates.sort(key=lambda row: -row["value"] if largest else row["value"])
    sign = 1.0 if largest else -1.0
    values = np.array([sign * row["value"] for row in candidates])
    low, high = _distances(candidates, comparisons=(len(candidates) - 1) * ends)
    lower_distance, upper_distance = (low, high) if largest else (high, low)
    # The distance of each number (a column) below each other (a row), and what chance allows of it.
    gaps = values[:, None] - values
    limits = (
        lower_distance[:, None] + upper_distance
        if are_shares
        else np.hypot(lower_distance[:, None], upper_distance)
    )
    ties = np.flatnonzero((gaps <= limits).all(axis=0))
    # Of the first: what chance allows of each other's lead, and what the power asks for beyond it.
    df = np.array([max(degrees_of_freedom(row), 1.0) for row in candidates])
    errors = (low + high) / 2 / stdtrit(df, 1 - (1 - LEVEL) / 2 / ((len(candidates) - 1) * ends))
    reach = limits[0, 1:] + stdtrit(np.minimum(df[0], df[1:]), POWER) * np.hypot(errors[0], errors[1:])
    return Extreme(
        rows=tuple(candidates[index] for index in ties.tolist()),
        n_compared=len(candidates),
        n_without_verdict=len(scores) - len(candidates),
        detectable=float(reach.max()),
    )


def _distances(
    rows: Sequence[Row], comparisons: int
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Return the distances from each value to the ends of its interval, widened for several comparisons."""
    factors = np.array([bonferroni_factor(row, comparisons) for row in rows])
    low, high = (
        np.array([abs(row[end] - row["value"]) for row in rows]) * factors for end in ("ci_low", "ci_high")
    )
    return low, high


def bonferroni_factor(row: Row, comparisons: int) -> float:
    """Return the factor by which an interval is widened so that several hold at once (Bonferroni)."""
    tail = (1 - LEVEL) / 2
    df = max(degrees_of_freedom(row), 1.0)
    return float(stdtrit(df, 1 - tail / max(comparisons, 1)) / stdtrit(df, 1 - tail))


def widen(row: Row, n_comparisons: int) -> dict[str, Any]:
    """Return a score with the interval that holds for the best of several.

    Args:
        row: The score.
        n_comparisons: Number of scores of which it is the best.
    """
    if n_comparisons < 2 or row["ci_low"] is None or row["ci_high"] is None:
        return dict(row)
    factor = bonferroni_factor(row, n_comparisons)
    ends = {end: row["value"] + factor * (row[end] - row["value"]) for end in ("ci_low", "ci_high")}
    return {**row, **ends}


def split_by_threshold(
    rows: Iterable[Row], threshold: float
) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
    """Split scores into those surely above a threshold, those surely below it, and the others.

    Args:
        rows: Scores; those that allow no verdict are among the others.
        threshold: Threshold of the value. Each interval is widened so that all of them hold at once.
    """
    scores = list(rows)
    higher_rows: list[Row] = []
    lower_rows: list[Row] = []
    undecided_rows: list[Row] = []
    for row in scores:
        if not allows_verdict(row):
            undecided_rows.append(row)
            continue
        wide = widen(row, len(scores))
        low, high = wide["ci_low"], wide["ci_high"]
        if low is not None and low > threshold:
            higher_rows.append(row)
        elif high is not None and high < threshold:
            lower_rows.append(row)
        else:
            undecided_rows.append(row)
    return tuple(higher_rows), tuple(lower_rows), tuple(undecided_rows)


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
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return f"{'layer' if sum(map(len, runs)) == 1 else 'layers'} {join_names(texts)}"


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
        at the top"``, or ``"which surprises most is unclear (a lead of 0.4 bits would have been found)"``.
    """
    if not extreme.is_distinguishable:
        return f"which {verb} is unclear{_describe_detectable_lead(extreme, figures)}"
    names = [f"{label(row)} ({figures(row)})" for row in extreme.rows]
    if extreme.is_single:
        return f"{names[0]} {verb}"
    return f"{shorten_names(names)} cannot be told apart at the {end}"


def _describe_detectable_lead(extreme: Extreme, figures: Callable[[Row], str]) -> str:
    """Describe the lead that would have been found, in brackets after a blank."""
    lead = extreme.detectable
    if not math.isfinite(lead):
        return ""
    row = {**extreme.rows[0], "value": lead, "ci_low": None, "ci_high": None}
    return f" (a lead of {figures(row)} would have been found)"


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
    scores = list(rows)
    highest = find_extreme(scores, ends=2)
    lowest = find_extreme(scores, largest=False, ends=2)
    if highest is None or lowest is None:
        return ""
    if not highest.is_distinguishable and not lowest.is_distinguishable:
        lead = _describe_detectable_lead(
            max(highest, lowest, key=lambda extreme: extreme.detectable), figures
        )
        return f"Which of {format_subject(highest, noun)} {verbs[0]}, and which {verbs[1]}, is unclear{lead}"
    clauses = [
        describe_extreme(highest, label, figures, verb=verbs[0], end="top"),
        describe_extreme(lowest, label, figures, verb=verbs[1], end="bottom"),
    ]
    start = f"In {unit}, of" if unit else "Of"
    return f"{start} {format_subject(highest, noun)}, {'; '.join(clauses)}"


def format_subject(extreme: Extreme, noun: str) -> str:
    """Format the number of scores compared, for example ``"the 18 constructs that allow a verdict"``."""
    return f"the {extreme.n_compared:,} {noun}{' that allow a verdict' if extreme.n_without_verdict else ''}"
