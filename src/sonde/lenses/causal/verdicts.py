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
from sonde.stats.verdict import no_verdict_reason

Row = Mapping[str, Any]

NOTICEABLE = 0.01
"""Share of the model's surprisal below which a cost says nothing about use: any change of states moves the
loss a little, that of untrained weights too."""

USED, BETWEEN, ENCODED, ABSENT, INCONCLUSIVE = "used", "between", "held", "neither", "open"
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
"""What is erased in place of the property, in words.

What holds states as wide is drawn as `sonde.training.erasure.equal_change_subspaces` says.
"""

_REQUIRED = ((UNIFORM, WIDE, DONORS, CONTROL_TASK), (UNIFORM, WIDE, PERMUTED, "surface"))
"""Controls of a property of tokens, and of one of functions."""


def is_surely_positive(row: Row) -> bool:
    """Whether a difference is above zero with a verdict."""
    return not no_verdict_reason(row) and row["ci_low"] > 0


def is_surely_nonzero(row: Row) -> bool:
    """Whether a difference is not zero with a verdict."""
    return not no_verdict_reason(row) and (row["ci_low"] > 0 or row["ci_high"] < 0)


def p_value(row: Row) -> float:
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


def required_controls(excess: Mapping[str, Row]) -> tuple[str, ...]:
    """The controls that a property has to exceed; empty where one of them was not measured."""
    return next((names for names in _REQUIRED if all(name in excess for name in names)), ())


def largest_p_value(excess: Mapping[str, Row]) -> float | None:
    """P-value of "it exceeds not all of its controls"; None where not all were measured."""
    names = required_controls(excess)
    return max(p_value(excess[name]) for name in names) if names else None


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Benjamini and Hochberg."""
    from scipy.stats import false_discovery_control

    return false_discovery_control(np.array(p_values)).tolist() if p_values else []


def weakest_control(excess: Mapping[str, Row]) -> str:
    """The control that a property exceeds with the least certainty."""
    return max(required_controls(excess), key=lambda name: (p_value(excess[name]), -excess[name]["value"]))


def decide_outcome(
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
        p_adjusted: Of `largest_p_value`, adjusted.
    """
    found, why = _decide_probe_outcome(gains)
    if found != USED:
        return found, why
    if why := no_verdict_reason(bits):
        return INCONCLUSIVE, why
    least = NOTICEABLE * before["value"]
    if bits["ci_high"] < least:
        return ENCODED, ""
    names = required_controls(excess)
    if not names or p_adjusted is None:
        return UNMEASURED, "it was not held against all of its controls"
    if why := next(filter(None, (no_verdict_reason(excess[name]) for name in names)), ""):
        return INCONCLUSIVE, why
    labels = [excess[name]["value"] for name in (DONORS, CONTROL_TASK, PERMUTED) if name in names]
    if p_adjusted <= 1 - LEVEL and min(labels) >= least:
        return USED, ""
    if bits["ci_low"] >= least:
        return BETWEEN, ""
    return UNTOLD, (
        f"it costs {bits['ci_low']:.3f} to {bits['ci_high']:.3f} bits per subword, and {least:.3f}, "
        f"{100 * NOTICEABLE:.0f} % of the model's surprisal, would count as use"
    )


def _decide_probe_outcome(gains: Mapping[str, Row]) -> tuple[str, str]:
    """Whether a probe surely finds a property."""
    common = gains.get("majority")
    if common is None:
        return UNMEASURED, "no probe could be held against the commonest class"
    for name, row in gains.items():
        if why := no_verdict_reason(row):
            return INCONCLUSIVE, why
        if row["ci_low"] <= 0:
            beaten = "the commonest class" if name == "majority" else CONTROLS[CONTROL_TASK]
            return ABSENT, f"a probe finds no more than {beaten} with certainty"
    return USED, ""
