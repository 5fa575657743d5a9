"""What may be said of code that is newer than what a model has read: whether the older code is remembered.

Scores of both times, over the same mix of constructs, have the dimension ``period``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.results.detectable import detectable_of
from sonde.results.words import NO_DIFFERENCE, in_brackets, too_little, would_be_found

PERIOD = "period"
BEFORE, AFTER, CHANGE = "before", "after", "after-before"
"""Values of the dimension: both times, and by how much more the later one costs."""

SEEN, NOT_SEEN = "contamination seen", "contamination not seen"

LIMIT = (
    "a model that has read the older code predicts it better than matched newer code; other causes of drift "
    "over time are not excluded"
)
"""What the comparison can say at most, in words."""


def memory_seen(change: Mapping[str, Any], beyond: Mapping[str, Any] | None = None) -> str:
    """Whether code from before a day is remembered, in words.

    It is said to be where newer code costs more by an interval that excludes zero, and by more than it does
    for random weights, where those were asked as well.

    >>> row = {"value": 0.1, "ci_low": 0.05, "ci_high": 0.15, "effective_clusters": 12}
    >>> memory_seen(row)
    'contamination seen'
    >>> memory_seen({**row, "ci_low": -0.05})
    'contamination not seen'
    >>> memory_seen({**row, "effective_clusters": 4})
    'too little data: 4 effective clusters, a verdict needs 10'

    Args:
        change: The score of the difference, later less earlier.
        beyond: The same less that of the same model with random weights; None where it was not asked.
    """
    rows = [change] if beyond is None else [change, beyond]
    for row in rows:
        if why := too_little(row):
            return why
    seen = all(row["ci_low"] > 0 for row in rows)
    return SEEN if seen else NOT_SEEN


def describe_memory(change: Mapping[str, Any], beyond: Mapping[str, Any] | None = None) -> str:
    """Say what `memory_seen` says as a sentence with its meaning, and what would have been found.

    >>> row = {"value": 0.1, "ci_low": 0.08, "ci_high": 0.12, "effective_clusters": 12}
    >>> describe_memory({**row, "value": 0.0, "ci_low": -0.02, "ci_high": 0.02})
    'Contamination not seen: no difference found by which newer code costs more than older code of the same \
kind (0.03 bits or more would have been found).'
    """
    said = memory_seen(change, beyond)
    means = ""
    if said == SEEN:
        means = f": {LIMIT}"
    elif said == NOT_SEEN:
        last = beyond if beyond is not None and change["ci_low"] > 0 else change
        told = would_be_found(detectable_of(last), digits=2, unit=" bits")
        than = ", beyond that of random weights" if last is beyond else ""
        means = f": newer code costs less than older code of the same kind{than}"
        if last["ci_high"] >= 0:
            means = (
                f": {NO_DIFFERENCE} by which newer code costs more than older code of the same kind{than}"
                f"{in_brackets(told)}"
            )
    return f"{said[0].upper()}{said[1:]}{means}."
