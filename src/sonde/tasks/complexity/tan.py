"""TAN: are most of a function's tokens identifiers or keywords? Equally many have no class.

The number is identifiers minus keywords. INSPECT set the task aside as too easy; keywords are in the
majority in few functions only.
"""

from __future__ import annotations

from sonde.tasks.engine.task_types import Classes, Measured, tokens


class TokenMajority(Measured):
    """More keywords or more identifiers."""

    name = "tan"
    version = "2"
    facet = "tokens"
    classes = Classes((("KEY", float("-inf"), -1), ("IDF", 1, float("inf"))))

    def value(self, text: str, language: str) -> float:
        """Identifiers minus keywords."""
        measured = tokens(language)
        return len(measured.identifiers(text)) - measured.keywords(text)


task = TokenMajority()
