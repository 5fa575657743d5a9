"""MXN: how deep blocks stand in each other, which is the deepest indentation of code laid out by convention.

The function's body is 1. In Java a block, a class body, a switch and a single statement in the place of a
block are one deeper; ``else if`` is not. In Python, which has no braces, a level of indentation is.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import MetricTask, exact_classes, get_metrics

SYNONYMS = ("maximum nesting", "nesting depth")


class NestingDepth(MetricTask):
    """Depth of the deepest block."""

    name = "mxn"
    classes = exact_classes(1, 5)

    def value(self, text: str, language: str) -> float:
        """Return the depth of the deepest block."""
        return get_metrics(language).nesting_depth(text)


task = NestingDepth()
