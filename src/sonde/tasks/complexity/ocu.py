"""OCU: number of distinct operators.

An operator counts where it operates, and as the language's grammar has it: arithmetic, assignment,
comparison, logic, bits. In Java also ``instanceof`` and the arrow of a lambda; the conditional operator is
one, angle brackets of types and the colon of a loop are none. In Python also ``and or not in is``, operators
of two words being one; the signs that mark arguments are none.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_token_metrics

SYNONYMS = ("unique operators",)


class DistinctOperatorCount(MetricTask):
    """Number of distinct operators."""

    name = "ocu"
    version = "2"
    facet = "tokens"
    classes = exact_classes(1, 10)

    def value(self, text: str, language: str) -> float:
        """Count the distinct operators."""
        return len(set(get_token_metrics(language).operators(text)))


task = DistinctOperatorCount()
