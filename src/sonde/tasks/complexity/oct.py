"""OCT: number of operators, counting every occurrence.

OCU defines what an operator is.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_token_metrics

SYNONYMS = ("operator count",)


class OperatorCount(MetricTask):
    """Number of operators."""

    name = "oct"
    version = "2"
    facet = "tokens"
    classes = exact_classes(0, 8, is_open_ended=True)

    def value(self, text: str, language: str) -> float:
        """Count the operators."""
        return len(get_token_metrics(language).operators(text))


task = OperatorCount()
