"""Observations added up batch by batch, on the machines of the run where there are such, and then together.

A batch holds whole tables of observations, so it parts no item. What comes of it are sums in whole numbers
(`sonde.results.streaming.whole`): they are the same however many batches there are and in whatever order
they are put together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import polars as pl

from sonde.executors import EXECUTORS
from sonde.results.streaming import Accumulator

Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True, eq=False)
class SumsJob(Generic[Asked]):
    """One batch that is added up.

    Attributes:
        observations: The rows, lazily read from the folder of the run.
        asked: What is added up.
        root: The folder of the run; empty where the rows are not read from one.
    """

    observations: pl.LazyFrame
    asked: Asked
    root: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """Observations in batches, and where they are added up.

    Attributes:
        tables: The batches, lazily read; none parts the rows of an item.
        executor: Public name of the executor.
        workers: Batches at a time.
        root: The folder of the run; empty where the rows are not read from one.
    """

    tables: tuple[pl.LazyFrame, ...]
    executor: str = "local"
    workers: int = 1
    root: str = ""

    def each(self, rule: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Batches:
        """The same with some of the rows of each batch."""
        return dataclasses.replace(self, tables=tuple(map(rule, self.tables)))

    def added_up(
        self,
        function: Callable[[SumsJob[Asked]], Mapping[str, pl.DataFrame]],
        asked: Asked,
        accumulators: Mapping[str, Accumulator],
    ) -> dict[str, pl.DataFrame]:
        """The sums of all batches, by name.

        Args:
            function: A top-level function that gives the sums of one batch, as `Accumulator.added` has them.
            asked: What it goes by.
            accumulators: Put the sums of the batches together, by name; they hold nothing yet.
        """
        jobs = (SumsJob(table, asked, self.root) for table in self.tables)
        for _, sums in EXECUTORS.load(self.executor).map(function, jobs, workers=self.workers):
            for name, part in sums.items():
                accumulators[name].add(part)
        return {name: one.total() for name, one in accumulators.items()}
