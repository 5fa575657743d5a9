"""CSC: number of code structures: if, loops, switch and try.

In Java ``else if`` is an if of its own and try-with-resources a try. In Python elif is an if, match a switch;
``with`` is not counted.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_metrics

SYNONYMS = ("control structures", "control flow")


class CodeStructureCount(MetricTask):
    """Number of ifs, loops, switches and tries."""

    name = "csc"
    classes = exact_classes(0, 9)

    def value(self, text: str, language: str) -> float:
        """Count the code structures."""
        return sum(get_metrics(language).count_structures(text).values())


task = CodeStructureCount()
