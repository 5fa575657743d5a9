"""Same scope: are two variables declared in the same scope?

The marked places are the declarations of two variables of different names, every two of a function. In Java a
scope is a block, with the parameters or loop variables that its head declares; in Python it is a function, a
lambda, a class or a comprehension.
"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import Metrics
from sonde.tasks.engine.task_types import MarkedPair, VariablePairs, make_pair, pair_declarations

SYNONYMS = ("scoping",)


class SameScope(VariablePairs):
    """A scope that two variables share."""

    name = "same_scope"
    version = "3"
    labels = ("NO", "YES")

    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """Yield every two variables by their declarations."""
        variables = flow.variables(text)
        for index, other_index in pair_declarations(variables):
            shares_scope = variables[index].scope == variables[other_index].scope
            yield make_pair(variables[index], variables[other_index], "YES" if shares_scope else "NO")


task = SameScope()
