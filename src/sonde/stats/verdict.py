"""Verdicts: the one rule by which a score may be called a finding, and minimum effect sizes.

The rule is the same in the report, the terminal, the comparison and the card.

A large sample is sure of differences that nobody would act on: rounding weights to 8 bits moves many
surprisals by thousandths of a bit. So a difference is said to go one way only if it is sure and its estimate
is at least as large as the smallest difference that matters; the user may set that size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.formatting import DASH, number, plural

MIN_CLUSTERS = 10
"""Effective clusters that a verdict needs."""


MIN_SEEDS = 5
"""Below this many independent trainings, or draws of a control, a number allows no verdict."""


MIN_OBSERVATIONS = 30
"""Independent observations that a proportion's must be worth."""


NARROW, WIDE, RELATIVE = 0.05, 0.30, 1.30
"""Widths of a proportion's interval (National Center for Health Statistics 2017)."""


_MAX_DIGITS = 15


def allows_verdict(row: Mapping[str, Any]) -> bool:
    """Return whether a row of ``scores.parquet`` may be called a finding; see `no_verdict_reason`."""
    return not no_verdict_reason(row)


def no_verdict_reason(row: Mapping[str, Any]) -> str:
    """Return the reason why a row may not be called a finding; empty if it may.

    Ten effective clusters; of a proportion also 30 effective observations and an interval no wider than 0.30,
    nor, where it is wider than 0.05, than 130 % of p and of 1 - p; of what was trained, or drawn at random,
    five seeds.

    Args:
        row: ``value, ci_low, ci_high, effective_clusters, n_eff, seeds`` of a score; without effective
            clusters ``n_clusters`` counts.
    """
    clusters = row.get("effective_clusters")
    if clusters is None:
        clusters = float(row.get("n_clusters") or 0)
    if clusters < MIN_CLUSTERS:
        size = plural(format_effective_clusters(clusters), "effective cluster")
        return f"{size}, a verdict needs {MIN_CLUSTERS}"
    low, high = row.get("ci_low"), row.get("ci_high")
    if low is None or high is None or not math.isfinite(high - low):
        return "no interval is known"
    if (n_eff := row.get("n_eff")) is not None and (
        reason := _proportion_reason(row["value"], high - low, n_eff)
    ):
        return reason
    if (seeds := row.get("seeds")) is not None and seeds < MIN_SEEDS:
        return f"{plural(seeds, 'seed or draw', 'seeds or draws')}, a verdict needs {MIN_SEEDS}"
    return ""


def format_effective_clusters(clusters: float | None) -> str:
    """Format effective clusters, never rounded to the number that a verdict needs; a dash where unknown.

    >>> format_effective_clusters(135.2), format_effective_clusters(9.97), format_effective_clusters(9.9996)
    ('135', '9.97', '9.9996')
    """
    if clusters is None or not math.isfinite(clusters):
        return DASH
    return number(clusters, 0) if clusters >= 100 else _round_apart(clusters, MIN_CLUSTERS, 3)


def _round_apart(value: float, limit: float, digits: int, style: str = "g") -> str:
    """Format a number with at least ``digits``, or as many as do not round it to its limit or beyond."""
    text = f"{value:.{digits}{style}}"
    if (float(text) - limit) * (value - limit) > 0 or digits == _MAX_DIGITS:
        return text
    return _round_apart(value, limit, digits + 1, style)


def _proportion_reason(value: float, width: float, n_eff: float) -> str:
    if n_eff < MIN_OBSERVATIONS:
        worth = plural(_round_apart(n_eff, MIN_OBSERVATIONS, 2), "independent observation")
        return f"worth {worth}, a verdict needs {MIN_OBSERVATIONS}"
    if width > WIDE:
        text = _round_apart(100 * width, 100 * WIDE, 0, "f")
        return f"an interval of {text} points, a verdict needs {100 * WIDE:.0f} or fewer"
    if width > NARROW and width > RELATIVE * min(value, 1 - value):
        return f"an interval of {100 * width:.0f} points is too wide for so small a share"
    return ""


EffectClass = Literal["higher", "lower", "slight", "alike", "undecided"]
"""``slight`` is sure and less than matters; ``alike``: no difference that matters."""


POINT = 0.01
"""Of what is bounded (shares, correlations, shares of a variance): one point of a hundred."""


_BITS_PER_BYTE = 0.005


_BYTES = 4
"""About as many bytes has a subword of code, or a code token."""


_NATS_IN_A_BIT = 0.6931


_BITS = _BYTES * _BITS_PER_BYTE


MINIMUM_EFFECTS: Mapping[str, float] = MappingProxyType(
    {
        "bits_per_byte": _BITS_PER_BYTE,
        "bits_per_byte_change": _BITS_PER_BYTE,
        "bits_per_character": _BITS_PER_BYTE,
        "bits": _BITS,
        "bits_change": _BITS,
        "excess": _BITS,
        "apart": _BITS,
        "nats": _BITS * _NATS_IN_A_BIT,
        "nats_per_token": _BITS * _NATS_IN_A_BIT,
        "nats_per_character": _BITS_PER_BYTE * _NATS_IN_A_BIT,
        "accepted_characters": 0.1,
        "r2": POINT,
    }
)
"""Smallest differences that matter, in the metric's unit; unknown for other unbounded metrics."""


_BOUNDED_METHODS = ("Korn-Graubard", "logit", "Fisher")
"""Parts of the names of interval methods for bounded numbers."""


_DIFFERENCE_SUFFIXES = ("gain", "selectivity", "excess", "apart", "change", "difference")


def minimum_effect(metric: str, method: str, overrides: Mapping[str, float] = MappingProxyType({})) -> float:
    """Return the smallest difference in a metric that matters; 0 if unknown.

    >>> minimum_effect("accuracy", "Korn-Graubard")
    0.01
    >>> minimum_effect("bits_per_byte", "clustered jackknife, log")
    0.005

    Args:
        metric: The metric.
        method: Method of its interval (``ci_method``), which says whether the metric is bounded.
        overrides: Sizes by metric that a user set; they take precedence.
    """
    if metric in overrides:
        return overrides[metric]
    has_bounds = any(name in method for name in _BOUNDED_METHODS)
    return MINIMUM_EFFECTS.get(metric, POINT if has_bounds else 0.0)


def is_difference(metric: str) -> bool:
    """Return whether a metric is itself a difference, for which 0 means none."""
    return metric.endswith(_DIFFERENCE_SUFFIXES)


def classify_effect(value: float, low: float, high: float, minimum: float, *, is_sure: bool) -> EffectClass:
    """Classify a difference by its estimate, its 95 % interval and the smallest size that matters.

    Args:
        value: The difference.
        low: Lower end of its interval.
        high: Upper end.
        minimum: Smallest size that matters; 0 if unknown.
        is_sure: Whether it is distinguishable from 0: its interval excludes 0, among several after
            adjustment.

    >>> classify_effect(-0.003, -0.004, -0.002, 0.005, is_sure=True)
    'slight'
    >>> classify_effect(0.002, -0.001, 0.004, 0.005, is_sure=False)
    'alike'
    """
    if is_sure:
        return "slight" if abs(value) < minimum else "higher" if value > 0 else "lower"
    return "alike" if -minimum < low and high < minimum else "undecided"


def classify_score(
    row: Mapping[str, Any],
    minimum_effects: Mapping[str, float] = MappingProxyType({}),
    reference: float = 0.0,
) -> EffectClass:
    """Classify a score, less a reference, by its own interval.

    Args:
        row: ``metric, value, ci_low, ci_high, ci_method`` of a score that allows a verdict.
        minimum_effects: As ``overrides`` of `minimum_effect`.
        reference: Number that it is compared with; 0 for a score that is a difference.
    """
    value, low, high = (row[name] - reference for name in ("value", "ci_low", "ci_high"))
    size = minimum_effect(row["metric"], row["ci_method"] or "", minimum_effects)
    return classify_effect(value, low, high, size, is_sure=low > 0 or high < 0)


def check_minimum_effects(minimum_effects: Mapping[str, float], metrics: Iterable[str]) -> None:
    """Check the minimum sizes that a user set.

    Args:
        minimum_effects: Sizes by metric.
        metrics: Compared metrics.

    Raises:
        UnknownNameError: No number of that metric is compared; the nearest is named.
        UsageError: A size is negative or no number.
    """
    metric_names = list(metrics)
    for name, size in minimum_effects.items():
        if name not in metric_names:
            raise UnknownNameError("metric of this comparison", name, metric_names)
        if not 0 <= size < math.inf:
            raise UsageError(f"least size of {name} = {size:g}: give 0 or more, in the unit of the metric")


def parse_minimum_effects(texts: Sequence[str]) -> dict[str, float]:
    """Parse minimum sizes from the command line.

    >>> parse_minimum_effects(["accuracy=0.02"])
    {'accuracy': 0.02}

    Raises:
        UsageError: One is not written as ``METRIC=SIZE``.
    """
    sizes: dict[str, float] = {}
    for text in texts:
        name, _, size = text.partition("=")
        try:
            sizes[name] = float(size)
        except ValueError:
            raise UsageError(f"--least {text!r}: write METRIC=SIZE, as accuracy=0.02") from None
    return sizes
