"""NMS: number of ifs, with 4 or more in one class.

``else if`` and elif count as ifs; conditional expressions do not.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_metrics

SYNONYMS = ("if count", "branch count", "conditionals")


class IfCount(MetricTask):
    """Number of if statements."""

    name = "nms"
    classes = exact_classes(0, 3, is_open_ended=True)

    def value(self, text: str, language: str) -> float:
        """Count the ifs."""
        return get_metrics(language).count_structures(text)["if"]


task = IfCount()
