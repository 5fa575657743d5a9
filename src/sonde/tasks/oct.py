"""OCT: number of operators, each time that one occurs; what is an operator is said at OCU."""

from __future__ import annotations

from sonde.tasks._measured import Measured, exact, metrics


class Operators(Measured):
    """Number of operators."""

    name = "oct"
    corrected = exact(0, 8, above=True)

    def value(self, text: str, language: str, paper: bool) -> float:
        """Number of operators."""
        return len(metrics(language).operators(text, paper=paper))


task = Operators()
