"""OCT: number of operators, each time that one occurs.

What is an operator is said at OCU, in ``paper`` mode too (quirk ``inspect.any_sign``).
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.tasks._measured import Measured, exact, metrics


class Operators(Measured):
    """Number of operators."""

    name = "oct"
    corrected = exact(0, 8, above=True)
    quirks: Mapping[str, str] = {
        "inspect.any_sign": "signs count as operators wherever they stand, in types, labels and loops"
    }

    def value(self, text: str, language: str, paper: bool) -> float:
        """Number of operators."""
        return len(metrics(language).operators(text, paper=paper))


task = Operators()
