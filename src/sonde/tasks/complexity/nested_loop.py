"""Does a loop stand inside a loop? The number is that of loops in another."""

from __future__ import annotations

from sonde.tasks.engine.task_types import PatternTask


class NestedLoop(PatternTask):
    """Loops in loops."""

    name = "nested_loop"


task = NestedLoop()
