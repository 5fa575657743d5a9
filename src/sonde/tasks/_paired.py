"""Tasks about two marked variables of a function: a row a pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

import polars as pl

from sonde.corpora import Item
from sonde.languages import facet_of
from sonde.languages._flow import Flow, Variable, VariablePlace
from sonde.languages._metrics import Metrics
from sonde.tasks._task import PAIR_SCHEMA, Repository

# More stand in whole files only, where pairs of all variables would be millions.
_BETWEEN = 100


class MarkedPair(NamedTuple):
    """Two marked places with what holds between them."""

    place: VariablePlace
    other: VariablePlace
    label: str
    value: float | None = None


class VariablePairs(ABC):
    """A task about pairs of places of variables. A subclass gives ``name``, ``labels`` and `pairs`."""

    name: str
    labels: tuple[str, ...]
    version = "1"
    target = "pair"
    needs_repository = False

    def label(
        self,
        items: Iterable[Item],
        repositories: Mapping[str, Repository],
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
    ) -> dict[str, pl.DataFrame]:
        """One row a pair in `PAIR_SCHEMA`; the first place is the earlier one."""
        return {item.item_id: self._table(item) for item in items}

    @abstractmethod
    def pairs(self, text: str, flow: Flow, metrics: Metrics) -> Iterator[MarkedPair]:
        """The pairs of a text."""

    def _table(self, item: Item) -> pl.DataFrame:
        flow = facet_of(item.language, "flow", Flow)
        metrics = facet_of(item.language, "metrics", Metrics)
        rows = [
            (*pair.place, pair.label, pair.value, *pair.other)
            for pair in self.pairs(item.text, flow, metrics)
        ]
        return pl.DataFrame(rows, schema=dict(PAIR_SCHEMA), orient="row")


def declarations(variables: tuple[Variable, ...]) -> Iterator[tuple[int, int]]:
    """Every two variables, by index, that have different names and at most 100 declared between them."""
    for one, variable in enumerate(variables):
        for other in range(one + 1, min(one + 2 + _BETWEEN, len(variables))):
            if variables[other].name != variable.name:
                yield one, other
