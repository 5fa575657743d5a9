"""Tasks about two marked variables of a function: a row a pair."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages._flow import Flow, Variable, VariablePlace
from sonde.languages._metrics import Metrics
from sonde.tasks._task import PAIR_SCHEMA, ItemLabels, Repository

# More stand in whole files only, where pairs of all variables would be millions.
_BETWEEN = 100


class MarkedPair(NamedTuple):
    """Two marked places with what holds between them."""

    place: VariablePlace
    other: VariablePlace
    label: str
    value: float | None = None


class VariablePairs(ItemLabels):
    """A task about pairs of places of variables. A subclass gives ``name``, ``labels`` and `pairs`."""

    name: str
    labels: tuple[str, ...]
    version = "1"
    target = "pair"
    needs_repository = False
    facet = "flow"
    schema = PAIR_SCHEMA

    @abstractmethod
    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """The pairs of a text."""

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: Set[str]
    ) -> list[tuple[Any, ...]]:
        """One row a pair; the first place is the earlier one."""
        flow = facet_of(item.language, "flow", Flow)
        metrics = facet_of(item.language, "tokens", Metrics)
        return [
            (*pair.place, pair.label, pair.value, *pair.other)
            for pair in self.pairs(item.text, flow, metrics)
        ]


def declarations(variables: tuple[Variable, ...]) -> Iterator[tuple[int, int]]:
    """Every two variables, by index, that have different names and at most 100 declared between them."""
    for one, variable in enumerate(variables):
        for other in range(one + 1, min(one + 2 + _BETWEEN, len(variables))):
            if variables[other].name != variable.name:
                yield one, other


def marked(variable: Variable, other: Variable, label: str) -> MarkedPair:
    """Return the pair of two variables' declarations, in text order."""
    first, second = sorted((variable.declaration, other.declaration))
    return MarkedPair(first, second, label)
