"""NML: number of loops, with 4 or more in one class; Python's comprehensions do not count."""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_metrics

SYNONYMS = ("loop count",)


class LoopCount(MetricTask):
    """Number of for and while loops."""

    name = "nml"
    classes = exact_classes(0, 3, is_open_ended=True)

    def value(self, text: str, language: str) -> float:
        """Count the loops."""
        return get_metrics(language).count_structures(text)["loop"]


task = LoopCount()
