"""Whether what was erased is used, merely held, or lies between: the rules, on rows of ``scores.parquet``.

A property is *used* where a probe surely finds it at the layer, and erasing it costs more than erasing labels
that say nothing, more than subspaces of no meaning, by a noticeable share of the surprisal, in a test that
holds over all that the run asked. It is *held* where a probe finds it and its cost is surely less than that
share. What lies *between* costs more, but surely more than all controls it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from sonde.stats.intervals import LEVEL
from sonde.stats.verdict import why_no_verdict

Row = Mapping[str, Any]

NOTICEABLE = 0.01
"""Share of the model's surprisal below which a cost says nothing about use: any change of states moves the
loss a little, that of untrained weights too."""

USED, BETWEEN, HELD, NEITHER, OPEN = "used", "between", "held", "neither", "open"
UNTOLD, UNMEASURED = "untold", "unmeasured"
"""Of what allows a verdict: it may cost as much as counts, or less; and what was not held against all that it
should be."""

UNIFORM, WIDE, PERMUTED, DONORS, CONTROL_TASK = "uniform", "as_wide", "permuted", "donors", "control_task"

CONTROLS = {
    DONORS: "the labels of other functions",
    CONTROL_TASK: "a class drawn for each word",
    PERMUTED: "the labels in another order",
    UNIFORM: "directions drawn uniformly",
    WIDE: "directions as wide",
    "surface": "the labels in another order, both together with the surface",
}
"""What is erased in place of the property, in words; what holds states as wide is drawn as `as_wide` says."""

_REQUIRED = ((UNIFORM, WIDE, DONORS, CONTROL_TASK), (UNIFORM, WIDE, PERMUTED, "surface"))
"""Controls of a property of tokens, and of one of functions."""


def surely_above(row: Row) -> bool:
    """Whether a difference is above zero with a verdict."""
    return not why_no_verdict(row) and row["ci_low"] > 0


def surely_apart(row: Row) -> bool:
    """Whether a difference is not zero with a verdict."""
    return not why_no_verdict(row) and (row["ci_low"] > 0 or row["ci_high"] < 0)


def p_of(row: Row) -> float:
    """P-value of "the difference is 0", by the lower end of its interval where the row has none; 1 without.

    A difference that is not positive says nothing for a cost: 1.
    """
    if not row["value"] > 0:
        return 1.0
    if row["p_value"] is not None:
        return float(row["p_value"])
    low, df = row["ci_low"], row["df"]
    if low is None or df is None or not df >= 1:
        return 1.0
    error = (row["value"] - low) / float(stdtrit(df, 0.5 + LEVEL / 2))
    return float(2 * stdtr(df, -row["value"] / error)) if error > 0 else 0.0


def required(excess: Mapping[str, Row]) -> tuple[str, ...]:
    """The controls that a property has to exceed; empty where one of them was not measured."""
    return next((names for names in _REQUIRED if all(name in excess for name in names)), ())


def largest_p(excess: Mapping[str, Row]) -> float | None:
    """P-value of "it exceeds not all of its controls"; None where not all were measured."""
    names = required(excess)
    return max(p_of(excess[name]) for name in names) if names else None


def adjusted(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Benjamini and Hochberg."""
    from scipy.stats import false_discovery_control

    return false_discovery_control(np.array(p_values)).tolist() if p_values else []


def weakest(excess: Mapping[str, Row]) -> str:
    """The control that a property exceeds with the least certainty."""
    return max(required(excess), key=lambda name: (p_of(excess[name]), -excess[name]["value"]))


def concluded(
    *,
    before: Row,
    bits: Row,
    excess: Mapping[str, Row],
    gains: Mapping[str, Row],
    p_adjusted: float | None,
) -> tuple[str, str]:
    """What may be said of a property, and why nothing may.

    Args:
        before: The model's surprisal with nothing erased.
        bits: What erasing it costs.
        excess: By how much that is more than each control.
        gains: By how much a probe at that layer is righter than each of its controls.
        p_adjusted: Of `largest_p`, adjusted.
    """
    found, why = _probed(gains)
    if found != USED:
        return found, why
    if why := why_no_verdict(bits):
        return OPEN, why
    least = NOTICEABLE * before["value"]
    if bits["ci_high"] < least:
        return HELD, ""
    names = required(excess)
    if not names or p_adjusted is None:
        return UNMEASURED, "it was not held against all of its controls"
    if why := next(filter(None, (why_no_verdict(excess[name]) for name in names)), ""):
        return OPEN, why
    labels = [excess[name]["value"] for name in (DONORS, CONTROL_TASK, PERMUTED) if name in names]
    if p_adjusted <= 1 - LEVEL and min(labels) >= least:
        return USED, ""
    if bits["ci_low"] >= least:
        return BETWEEN, ""
    return UNTOLD, (
        f"it costs {bits['ci_low']:.3f} to {bits['ci_high']:.3f} bits per subword, and {least:.3f}, "
        f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
    )


def _probed(gains: Mapping[str, Row]) -> tuple[str, str]:
    """Whether a probe surely finds a property."""
    common = gains.get("majority")
    if common is None:
        return UNMEASURED, "no probe could be held against the commonest class"
    for name, row in gains.items():
        if why := why_no_verdict(row):
            return OPEN, why
        if row["ci_low"] <= 0:
            beaten = "the commonest class" if name == "majority" else CONTROLS[CONTROL_TASK]
            return NEITHER, f"a probe finds no more than {beaten} with certainty"
    return USED, ""
