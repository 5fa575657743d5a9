"""Memorisation: whether a model remembers code from before a cut-off date.

The scores of code from before and after the date, over the same mix of constructs, have the dimension
``period``.
"""

from __future__ import annotations

from sonde.base.formatting import bracket
from sonde.results.text_format import BITS, NO_DIFFERENCE, Row, insufficient_data_reason
from sonde.stats.power import detectable_from_score

PERIOD = "period"


BEFORE_CUTOFF, AFTER_CUTOFF, CUTOFF_CHANGE = "before", "after", "after-before"
"""Values of the dimension: both times, and by how much more the later one costs."""


CONTAMINATION_SEEN, CONTAMINATION_NOT_SEEN = "contamination seen", "contamination not seen"


CLAIM_LIMIT = (
    "a model that has read the older code predicts it better than matched newer code; other causes of drift "
    "over time are not excluded"
)
"""The most that the comparison can show, in words."""


def contamination_verdict(change: Row, control_change: Row | None = None) -> str:
    """Return whether code from before a cut-off date is memorised, in words.

    It is said to be where newer code costs more by an interval that excludes zero, and by more than it does
    for random weights, where those were asked as well.

    >>> row = {"value": 0.1, "ci_low": 0.05, "ci_high": 0.15, "effective_clusters": 12}
    >>> contamination_verdict(row)
    'contamination seen'
    >>> contamination_verdict({**row, "ci_low": -0.05})
    'contamination not seen'
    >>> contamination_verdict({**row, "effective_clusters": 4})
    'too little data: 4 effective clusters, a verdict needs 10'

    Args:
        change: The score of the difference, later less earlier.
        control_change: The same difference for the model with random weights; None without that control.
    """
    rows = [change] if control_change is None else [change, control_change]
    for row in rows:
        if reason := insufficient_data_reason(row):
            return reason
    is_seen = all(row["ci_low"] > 0 for row in rows)
    return CONTAMINATION_SEEN if is_seen else CONTAMINATION_NOT_SEEN


def describe_contamination(change: Row, control_change: Row | None = None) -> str:
    """Describe `contamination_verdict` in a sentence, with its meaning and the detectable difference.

    >>> row = {"value": 0.1, "ci_low": 0.08, "ci_high": 0.12, "effective_clusters": 12}
    >>> describe_contamination({**row, "value": 0.0, "ci_low": -0.02, "ci_high": 0.02})
    'Contamination not seen: no difference found by which newer code costs more than older code of the same \
kind (0.03 bits or more would have been found).'
    """
    verdict = contamination_verdict(change, control_change)
    meaning = ""
    if verdict == CONTAMINATION_SEEN:
        meaning = f": {CLAIM_LIMIT}"
    elif verdict == CONTAMINATION_NOT_SEEN:
        last = control_change if control_change is not None and change["ci_low"] > 0 else change
        detectable = BITS.detectable(detectable_from_score(last))
        suffix = ", beyond that of random weights" if last is control_change else ""
        meaning = f": newer code costs less than older code of the same kind{suffix}"
        if last["ci_high"] >= 0:
            meaning = (
                f": {NO_DIFFERENCE} by which newer code costs more than older code of the same kind{suffix}"
                f"{bracket(detectable)}"
            )
    return f"{verdict[0].upper()}{verdict[1:]}{meaning}."
