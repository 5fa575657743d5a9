"""When a number may be called a finding: one rule for page, terminal, comparison and card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

ENOUGH_CLUSTERS = 10
"""Effective clusters that a verdict needs."""

ENOUGH_SEEDS = 5
"""Below this many independent trainings, or draws of a control, a number allows no verdict."""

ENOUGH_OBSERVATIONS = 30
"""Independent observations that a proportion's must be worth."""

NARROW, WIDE, RELATIVE = 0.05, 0.30, 1.30
"""Widths of a proportion's interval (National Center for Health Statistics 2017)."""

_MOST_FIGURES = 15


def verdict_allowed(row: Mapping[str, Any]) -> bool:
    """Whether a row of ``scores.parquet`` may be called a finding; see `why_no_verdict`."""
    return not why_no_verdict(row)


def why_no_verdict(row: Mapping[str, Any]) -> str:
    """Why a row may not be called a finding, in words; empty where it may.

    Ten effective clusters; of a proportion also 30 effective observations and an interval no wider than 0.30,
    nor, where it is wider than 0.05, than 130 % of p and of 1 - p; of what was trained, or drawn at random,
    five seeds.

    Args:
        row: ``value, ci_low, ci_high, effective_clusters, n_eff, seeds`` of a score; one that lacks the
            effective clusters is taken by ``n_clusters``.
    """
    clusters = row.get("effective_clusters")
    if clusters is None:
        clusters = float(row.get("n_clusters") or 0)
    if clusters < ENOUGH_CLUSTERS:
        number = _less_than(clusters, ENOUGH_CLUSTERS)
        return f"{number} effective cluster{'s' * (number != '1')}, a verdict needs {ENOUGH_CLUSTERS}"
    low, high = row.get("ci_low"), row.get("ci_high")
    if low is None or high is None or not math.isfinite(high - low):
        return "no interval is known"
    if (n_eff := row.get("n_eff")) is not None and (why := _proportion(row["value"], high - low, n_eff)):
        return why
    if (seeds := row.get("seeds")) is not None and seeds < ENOUGH_SEEDS:
        drawn = "seed or draw" if seeds == 1 else "seeds or draws"
        return f"{seeds} {drawn}, a verdict needs {ENOUGH_SEEDS}"
    return ""


def _less_than(value: float, least: float, digits: int = 3) -> str:
    """Return a number below ``least`` in so many figures, or in as many as do not round it up to that."""
    while float(shown := f"{value:.{digits}g}") >= least and digits < _MOST_FIGURES:
        digits += 1
    return shown


def _more_than(value: float, most: float) -> str:
    """Return a number above ``most`` with as few decimals as do not round it down to that."""
    digits = 0
    while float(shown := f"{value:.{digits}f}") <= most and digits < _MOST_FIGURES:
        digits += 1
    return shown


def _proportion(value: float, width: float, n_eff: float) -> str:
    if n_eff < ENOUGH_OBSERVATIONS:
        worth = _less_than(n_eff, ENOUGH_OBSERVATIONS, digits=2)
        worth += f" independent observation{'s' * (worth != '1')}"
        return f"worth {worth}, a verdict needs {ENOUGH_OBSERVATIONS}"
    if width > WIDE:
        shown = _more_than(100 * width, 100 * WIDE)
        return f"an interval of {shown} points, a verdict needs {100 * WIDE:.0f} or fewer"
    if width > NARROW and width > RELATIVE * min(value, 1 - value):
        return f"an interval of {100 * width:.0f} points is too wide for so small a share"
    return ""
