"""Local cues: what a word and its neighbours give away, beside what a probe reads from the states.

Report, terminal and card use the same words. Local cues belong to the language: they appear beside a number
and are no control that takes its verdict away.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.results.text_format import OUTCOMES, SHARE, TOO_LITTLE, Row
from sonde.stats.verdict import allows_verdict, classify_score

LOCAL_CUES = "local_cues"
"""The column ``control`` of these rows."""


CUES_GAIN = "cues_gain"
"""Metric of the paired difference: the probe less local cues."""


MODEL_KEY = ("model", "task", "language")


_OUTCOME_WORDS = {**OUTCOMES, "higher": "more from the states", "lower": "less from the states"}


def describe_cues(accuracy: Row, cues: Row, gain: Row) -> str:
    """Return a clause that sets what states tell beside what the word and its neighbours tell.

    Args:
        accuracy: The row of the probe, whose interval is said elsewhere.
        cues: The row of local cues.
        gain: The row of their paired difference.
    """
    return (
        f"read from the states with {SHARE.value(accuracy)}, from the word and its neighbours with "
        f"{SHARE.estimate(cues)}: {compare_with_cues(gain)}, {SHARE.change(gain, sign='+')}"
    )


def compare_with_cues(gain: Row) -> str:
    """Return whether states tell more than local cues, in words.

    >>> row = {"metric": "cues_gain", "ci_method": "Fisher", "effective_clusters": 50.0, "value": -0.05}
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": -0.02})
    'less from the states'
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": 0.02})
    'no difference found'
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": -0.02, "effective_clusters": 3.0})
    'too little data'
    """
    return _OUTCOME_WORDS[classify_score(gain)] if allows_verdict(gain) else TOO_LITTLE


def index_cues(rows: pl.DataFrame) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]:
    """Return the accuracy of local cues and the paired difference to it, by model, task and language.

    Args:
        rows: Scores of probes at the chosen layer; of several poolings the first counts.
    """
    cues = rows.filter(control=LOCAL_CUES, metric="accuracy")
    gains = rows.filter(metric=CUES_GAIN, of_metric="accuracy")
    first, second = (
        {tuple(row[name] for name in MODEL_KEY): row for row in reversed(frame.to_dicts())}
        for frame in (cues, gains)
    )
    return {key: (row, second[key]) for key, row in first.items() if key in second}
