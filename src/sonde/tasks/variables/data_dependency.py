"""Data dependency: is one of two variables computed from the other?

The marked places are the declarations of two variables of different names, every two of a function. ``YES``
where one is computed from the other in either direction, by one assignment (also of a loop, a ``with``, a
declaration) or several through other variables. The order of statements, calls that change their arguments,
and fields of objects are ignored; a write through ``a.b`` or ``a[i]`` flows into ``a``, and in ``x, y = a,
b`` only ``a`` flows into ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import Metrics
from sonde.tasks.engine.task_types import MarkedPair, VariablePairs, make_pair, pair_declarations

SYNONYMS = ("data flow", "dataflow", "def use")


class DataDependency(VariablePairs):
    """A dependency between the values of two variables."""

    name = "data_dependency"
    version = "4"
    facet = "dependencies"
    labels = ("NO", "YES")

    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """Yield every two variables by their declarations."""
        variables, dependencies = flow.variables(text), flow.dependencies(text)
        for index, other_index in pair_declarations(variables):
            depends = (index, other_index) in dependencies or (other_index, index) in dependencies
            yield make_pair(variables[index], variables[other_index], "YES" if depends else "NO")


task = DataDependency()
