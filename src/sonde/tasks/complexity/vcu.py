"""VCU: number of distinct variables that the function declares, parameters included.

In Java also variables of loops, catches, lambdas, patterns and resources, and fields of classes inside. In
Python every name that the function binds by assignment, loop, ``with``, ``except``, comprehension, case or
``:=`` is one (``self`` is a parameter); imports, functions and classes bind no variable. One name is one
variable, in however many scopes.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_flow

SYNONYMS = ("unique variables",)


class DistinctVariableCount(MetricTask):
    """Number of distinct names of variables."""

    name = "vcu"
    facet = "flow"
    classes = exact_classes(1, 10)

    def value(self, text: str, language: str) -> float:
        """Count the distinct names of variables."""
        variables = get_flow(language).variables(text)
        return len({variable.name for variable in variables})


task = DistinctVariableCount()
