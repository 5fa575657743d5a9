"""MXN: maximum nesting depth of blocks, which is the deepest indentation of conventionally formatted code.

The function's body has depth 1. In Java a block, a class body, a switch and a single statement in place of a
block add one; ``else if`` does not. In Python, which has no braces, each level of indentation adds one.
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
