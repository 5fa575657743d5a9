"""Is there a loop inside a loop? The number counts loops inside other loops."""

from __future__ import annotations

from sonde.tasks.engine.task_types import PatternTask


class NestedLoop(PatternTask):
    """Loops in loops."""

    name = "nested_loop"


task = NestedLoop()
