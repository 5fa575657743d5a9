"""OCT: number of operators, each time that one occurs.

What is an operator is said at OCU.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import Measured, exact, tokens


class Operators(Measured):
    """Number of operators."""

    name = "oct"
    version = "2"
    facet = "tokens"
    classes = exact(0, 8, above=True)

    def value(self, text: str, language: str) -> float:
        """Number of operators."""
        return len(tokens(language).operators(text))


task = Operators()
