"""Columns of strings that repeat: each string once, and for every row its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """A column of strings.

    Attributes:
        pool: The strings; the empty one is among them.
        codes: For each row its place in the pool.
    """

    pool: tuple[str, ...]
    codes: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, values: Sequence[str]) -> Pooled:
        """Number the strings of a column."""
        numbers = {"": 0}
        codes = np.fromiter(
            (numbers.setdefault(value, len(numbers)) for value in values), np.int32, len(values)
        )
        return cls(tuple(numbers), codes)

    def at(self, rows: Int[np.ndarray, " taken"]) -> Pooled:
        """The column of some rows."""
        return Pooled(self.pool, self.codes[rows])

    def where(self, kept: Bool[np.ndarray, " row"]) -> Pooled:
        """The column with empty strings where a row is not kept."""
        return Pooled(self.pool, np.where(kept, self.codes, self.pool.index("")))

    def series(self, name: str) -> pl.Series:
        """The strings as a column of a table."""
        return pl.Series(name, self.pool, pl.String)[self.codes]


def alternatives(
    ids: Int[np.ndarray, "row top_k"], nats: Float[np.ndarray, "row top_k"], surfaces: Sequence[str]
) -> list[pl.Series]:
    """The columns ``top`` and ``top_nats``: the surfaces of vocabulary ids, and what they would have cost.

    Where there are fewer alternatives than columns, the last ones cost NaN and are left out.
    """
    used = np.zeros(len(surfaces), np.bool_)
    used[ids] = True
    pool = tuple(surfaces[number] for number in np.flatnonzero(used).tolist())
    names = Pooled(pool, (np.cumsum(used) - 1)[ids.ravel()]).series("top")
    values = pl.Series("top_nats", nats.astype(np.float32).ravel(), pl.Float32)
    columns = [column.reshape(ids.shape).arr.to_list() for column in (names, values)]
    there = np.isfinite(nats).sum(axis=1)
    if len(ids) and there.min() < ids.shape[1]:
        columns = (
            pl.DataFrame([*columns, pl.Series("there", there)])
            .select(pl.col("top", "top_nats").list.head("there"))
            .get_columns()
        )
    return columns
