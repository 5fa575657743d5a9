"""NMS: number of ifs, 4 and more in one class.

``else if`` and elif are ifs, conditional expressions are not.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import Measured, exact, metrics


class Ifs(Measured):
    """Number of if statements."""

    name = "nms"
    classes = exact(0, 3, above=True)

    def value(self, text: str, language: str) -> float:
        """Number of ifs."""
        return metrics(language).structures(text)["if"]


task = Ifs()
