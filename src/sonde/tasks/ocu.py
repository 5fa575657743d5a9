"""OCU: number of distinct operators.

What the language's grammar calls an operator where it operates: arithmetic, assignment, comparison, logic,
bits. In Java also ``instanceof`` and the arrow of a lambda; the conditional operator is one, angle brackets
of types and the colon of a loop are none. In Python also ``and or not in is``, operators of two words being
one; the signs that mark arguments are none.

``paper`` (quirk ``inspect.any_sign``): for Java every such sign wherever it stands (angle brackets of
types, colons of loops and labels, question marks of wildcards), without instanceof. 77 % of the released
labels follow from this, and no definition was found that does better.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.tasks._measured import Measured, exact, metrics


class DistinctOperators(Measured):
    """Number of distinct operators."""

    name = "ocu"
    corrected = exact(1, 10)
    quirks: Mapping[str, str] = {
        "inspect.any_sign": "signs count as operators wherever they stand, in types, labels and loops"
    }

    def value(self, text: str, language: str, paper: bool) -> float:
        """Number of distinct operators."""
        return len(set(metrics(language).operators(text, paper=paper)))


task = DistinctOperators()
