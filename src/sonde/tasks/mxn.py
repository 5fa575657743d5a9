"""MXN: how deep blocks stand in each other, which is the deepest indentation of code laid out by convention.

The function's body is 1. In Java a block, a class body, a switch and a single statement in the place of a
block are one deeper; ``else if`` is not. In Python, which has no braces, a level of indentation is.

``paper`` (quirk ``inspect.braces``): for Java the deepest curly brace, array initialisers included, layout
and braceless bodies not.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.tasks._measured import Measured, exact, metrics


class MaximumNesting(Measured):
    """Depth of the deepest block."""

    name = "mxn"
    corrected = exact(1, 5)
    quirks: Mapping[str, str] = {"inspect.braces": "nesting is the deepest curly brace, whatever it opens"}

    def value(self, text: str, language: str, paper: bool) -> float:
        """Depth of the deepest block."""
        return metrics(language).nesting(text, paper=paper)


task = MaximumNesting()
