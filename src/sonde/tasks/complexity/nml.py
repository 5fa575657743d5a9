"""NML: number of loops, 4 and more in one class; comprehensions of Python are no loops."""

from __future__ import annotations

from sonde.tasks.engine.task_types import Measured, exact, metrics


class Loops(Measured):
    """Number of for and while loops."""

    name = "nml"
    classes = exact(0, 3, above=True)

    def value(self, text: str, language: str) -> float:
        """Number of loops."""
        return metrics(language).structures(text)["loop"]


task = Loops()
