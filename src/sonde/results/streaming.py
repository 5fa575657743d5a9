"""Sums of tables larger than memory, for lenses whose rows say something only beside the others of an item.

Batches of whole items are added up one by one, and the sums of a batch are all that is kept of it. Where rows
stand alone, `sonde.results.means` of a lazy table does as much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import polars as pl

_BATCH_ROWS = 25_000
_PENDING_ROWS = 50_000

_QUANTUM = 2.0**-30


def whole(value: pl.Expr) -> pl.Expr:
    """A real number as whole multiples of 2^-30, so that sums do not depend on the order of rows or threads.

    Nine decimals are finer than what models repeat; 2^63 of these units are 8.6e9.
    """
    return (value.cast(pl.Float64) / _QUANTUM).round().cast(pl.Int64)


def whole_items(observations: pl.LazyFrame, item: str = "item_id") -> Iterator[pl.DataFrame]:
    """Batches that never part an item; at least one batch, even if it is empty.

    Args:
        observations: A table in which the rows of an item stand together.
        item: Column that tells items apart.
    """
    held = observations.head(0).collect()
    for batch in observations.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        held = pl.concat([held, batch])
        if held.height < _BATCH_ROWS:
            continue
        last = held[item] == held[item][-1]
        if not last.all():
            yield held.filter(~last)
            held = held.filter(last)
    yield held


@dataclass(slots=True)
class Accumulator:
    """Sums by some keys, added up whenever enough of them wait.

    Attributes:
        keys: Columns that make groups, the cluster among them.
        real: Columns that hold `whole` multiples.
    """

    keys: tuple[str, ...]
    real: Collection[str] = ()
    _waiting: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0

    def add(self, part: pl.DataFrame) -> None:
        """Take the sums of one batch."""
        self._waiting.append(part)
        self._rows += part.height
        if self._rows > _PENDING_ROWS and len(self._waiting) > 1:
            total = self.added()
            # Where nearly every row is its own group, waiting longer saves work.
            self._waiting, self._rows = [total], max(0, total.height - _PENDING_ROWS // 2)

    def added(self) -> pl.DataFrame:
        """All sums in whole numbers, one row a key, as another accumulator of the same keys takes them."""
        return pl.concat(self._waiting).group_by(self.keys).sum()

    def total(self) -> pl.DataFrame:
        """All sums, one row a key, sorted by key."""
        frame = self.added().sort(self.keys)
        return frame.with_columns(pl.col(name) * _QUANTUM for name in self.real if name in frame.columns)
