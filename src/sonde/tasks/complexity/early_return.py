"""Does the function return before its end?

The number counts return statements that are not the last statement of its body. Functions, classes and
methods inside have their own returns; those in a lambda of Java count.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import PatternTask


class EarlyReturn(PatternTask):
    """Returns before the end."""

    name = "early_return"
    version = "2"


task = EarlyReturn()
