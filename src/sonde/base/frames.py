"""Many small tables put together, without what each of them keeps in memory.

A table's strings point into buffers, and tables that are made of others share theirs: one of some rows can
keep hundreds of kilobytes alive, and a table of a hundred thousand small ones takes ten times its size.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import polars as pl

_TOGETHER = 512


def compact(table: pl.DataFrame) -> pl.DataFrame:
    """The same table, its strings copied out of the buffers that they share with other tables."""
    return cast(pl.DataFrame, pl.from_arrow(table.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))


def one_below_another(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Many small tables as one, joined as they come; there has to be one."""
    return pl.concat(_by_the_hundred(tables), rechunk=True)


def parquet_of(tables: Iterable[pl.DataFrame]) -> bytes:
    """Many small tables as one Parquet file, of which a few are held at a time; there has to be one.

    Args:
        tables: Tables with the same columns.

    Returns:
        What the file holds, with a row group for some hundred of the tables.
    """
    from pyarrow import parquet

    held = (table.to_arrow(compat_level=pl.CompatLevel.oldest()) for table in _by_the_hundred(tables))
    first = next(held)
    written = io.BytesIO()
    with parquet.ParquetWriter(written, first.schema, compression="zstd", write_statistics=False) as writer:
        writer.write_table(first)
        for table in held:
            writer.write_table(table)
    return written.getvalue()


def _by_the_hundred(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    left = iter(tables)
    while some := list(islice(left, _TOGETHER)):
        yield compact(pl.concat(some))
