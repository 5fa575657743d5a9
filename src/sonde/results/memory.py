"""What may be said of code that is newer than what a model has read: whether the older code is remembered.

Scores of both times, over the same mix of constructs, have the dimension ``period``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.results.verdict import why_no_verdict

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
    'no verdict: 4 effective clusters, a verdict needs 10'

    Args:
        change: The score of the difference, later less earlier.
        beyond: The same less that of the same model with random weights; None where it was not asked.
    """
    rows = [change] if beyond is None else [change, beyond]
    for row in rows:
        if why := why_no_verdict(row):
            return f"no verdict: {why}"
    seen = all(row["ci_low"] > 0 for row in rows)
    return SEEN if seen else NOT_SEEN


def in_words(said: str) -> str:
    """What `memory_seen` says, as a sentence that says what it means.

    >>> in_words("contamination not seen")
    'Contamination not seen: newer code is not shown to cost more than older code of the same kind.'
    """
    means = {
        SEEN: f": {LIMIT}",
        NOT_SEEN: ": newer code is not shown to cost more than older code of the same kind",
    }
    return f"{said[0].upper()}{said[1:]}{means.get(said, '')}."
