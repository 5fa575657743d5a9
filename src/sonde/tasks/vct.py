"""VCT: how often the variables that a function declares occur in it, declarations included; see VCU.

``paper`` (quirk ``inspect.all_identifiers``): the number of all identifiers, names of types and methods
included.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.tasks._measured import Measured, exact, flow, metrics


class VariableUses(Measured):
    """Number of occurrences of variables."""

    name = "vct"
    corrected = exact(1, 10)
    quirks: Mapping[str, str] = {
        "inspect.all_identifiers": "every identifier counts as a variable, those of types and methods too"
    }

    def value(self, text: str, language: str, paper: bool) -> float:
        """Number of occurrences."""
        if paper:
            return len(metrics(language).identifiers(text))
        return sum(len(variable.places) for variable in flow(language).variables(text))


task = VariableUses()
