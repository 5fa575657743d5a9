"""Next use: how many code tokens from one use of a variable to its next?

The marked places are two successive occurrences of one variable, in the order of the text. The number is
their distance in tokens (1 for neighbours); classes are five bins of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import Metrics
from sonde.tasks.engine.task_types import MarkedPair, VariablePairs, range_classes

_BINS = range_classes("1-3", "4-7", "8-15", "16-31", "32-")


class NextUse(VariablePairs):
    """The distance to a variable's next occurrence."""

    name = "next_use"
    version = "2"
    labels = _BINS.names

    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """Yield every occurrence of a variable with its next one."""
        starts = [leaf.start for leaf in metrics.leaves(text)]
        for variable in flow.variables(text):
            for occurrence, next_occurrence in pairwise(variable.places):
                distance = bisect_left(starts, next_occurrence.start) - bisect_left(starts, occurrence.start)
                label = _BINS.find(distance)
                if label is not None:
                    yield MarkedPair(occurrence, next_occurrence, label, float(distance))


task = NextUse()
