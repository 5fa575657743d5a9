"""VCT: number of occurrences of the function's own variables, declarations included; see VCU."""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_flow

SYNONYMS = ("variable count",)


class VariableUseCount(MetricTask):
    """Number of occurrences of variables."""

    name = "vct"
    version = "2"
    facet = "flow"
    classes = exact_classes(1, 10)

    def value(self, text: str, language: str) -> float:
        """Count the occurrences."""
        return sum(len(variable.places) for variable in get_flow(language).variables(text))


task = VariableUseCount()
