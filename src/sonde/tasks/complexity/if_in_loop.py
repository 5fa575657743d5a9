"""Is there an if inside a loop? The number counts ifs in loops; an elif is an if."""

from __future__ import annotations

from sonde.tasks.engine.task_types import PatternTask


class IfInLoop(PatternTask):
    """Ifs in loops."""

    name = "if_in_loop"


task = IfInLoop()
