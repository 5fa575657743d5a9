"""TAN: does the function have more identifiers or more keywords? Ties have no class.

The number is identifiers minus keywords. INSPECT set the task aside as too easy; few functions have more
keywords than identifiers.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, NumberClasses, get_token_metrics

SYNONYMS = ("token majority",)


class TokenMajority(MetricTask):
    """More keywords or more identifiers."""

    name = "tan"
    version = "2"
    facet = "tokens"
    classes = NumberClasses((("KEY", float("-inf"), -1), ("IDF", 1, float("inf"))))

    def value(self, text: str, language: str) -> float:
        """Return the number of identifiers minus that of keywords."""
        metrics = get_token_metrics(language)
        return len(metrics.identifiers(text)) - metrics.keywords(text)


task = TokenMajority()
