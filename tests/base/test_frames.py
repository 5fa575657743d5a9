"""Many small tables as one table and as one file, beside what polars makes of them."""

import io

import polars as pl
import pytest

from sonde.base import frames
from sonde.base.frames import compact_table, concatenate_tables, to_parquet

ROWS = pl.DataFrame(
    {
        "name": ["a name longer than twelve letters", None, ""],
        "place": [1, None, 3],
        "nats": [0.5, None, float("nan")],
        "cuts": [[1, 2], [], None],
        "tags": [[{"start": 1, "label": "x"}], [], None],
    },
    schema_overrides={"place": pl.Int32, "nats": pl.Float32},
)
MANY = [ROWS, ROWS.head(0), ROWS.reverse(), ROWS.head(1)]


@pytest.mark.parametrize("together", [1, 2, 512])
def test_they_are_what_polars_makes_of_them(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_TABLES_PER_BATCH", together)
    expected = pl.concat(MANY)
    for found in (concatenate_tables(MANY), pl.read_parquet(io.BytesIO(to_parquet(iter(MANY))))):
        assert found.equals(expected) and found.schema == expected.schema


def test_a_compact_table_takes_what_its_own_rows_take() -> None:
    long = pl.DataFrame({"name": ["x" * 1_000 for _ in range(1_000)]})
    few = compact_table(long.filter(pl.int_range(pl.len()) < 2))
    assert few.equals(long.head(2)) and compact_table(long.head(0)).schema == long.schema
    assert compact_table(few).to_arrow().nbytes < 5_000


def test_few_tables_are_held_while_a_file_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_TABLES_PER_BATCH", 3)
    from pyarrow import parquet

    written = parquet.ParquetFile(io.BytesIO(to_parquet(ROWS for _ in range(7))))
    assert [written.metadata.row_group(at).num_rows for at in range(written.num_row_groups)] == [9, 9, 3]
