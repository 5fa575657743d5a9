"""Memory-saving concatenation of many small tables.

The strings of a table point into buffers that it shares with the tables it was made from: a table of a few
rows can keep hundreds of kilobytes alive, and one of a hundred thousand small tables takes ten times its
size.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

import polars as pl

_TABLES_PER_BATCH = 512


def compact_table(table: pl.DataFrame) -> pl.DataFrame:
    """Copy the strings of a table out of the buffers that it shares with other tables."""
    return cast(pl.DataFrame, pl.from_arrow(table.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())))


def concatenate_tables(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate many small tables in batches; at least one table is required."""
    return pl.concat(_concatenate_batches(tables), rechunk=True)


def to_parquet(tables: Iterable[pl.DataFrame]) -> bytes:
    """Write many small tables as one Parquet file, with one batch of them in memory at a time.

    Args:
        tables: Tables with the same columns, at least one.

    Returns:
        The content of the file, with one row group per batch of tables.
    """
    from pyarrow import parquet

    batches = (batch.to_arrow(compat_level=pl.CompatLevel.oldest()) for batch in _concatenate_batches(tables))
    first = next(batches)
    buffer = io.BytesIO()
    with parquet.ParquetWriter(buffer, first.schema, compression="zstd", write_statistics=False) as writer:
        writer.write_table(first)
        for table in batches:
            writer.write_table(table)
    return buffer.getvalue()


def _concatenate_batches(tables: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    remaining = iter(tables)
    while batch := list(islice(remaining, _TABLES_PER_BATCH)):
        yield compact_table(pl.concat(batch))
