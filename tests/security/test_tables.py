"""Small Parquet files that are large when they are read: as a corpus, and as a file of a run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from sonde.base.errors import InputError
from sonde.base.process import measure_peak_memory
from sonde.corpora import SkipCounter, read_files
from sonde.results.scores import read_scores


def many_rows(path: Path, rows: int) -> Path:
    """So many rows of one value, in a file of some kilobytes."""
    some = 10_000_000
    codes = pa.array([0], pa.int8()).take(pa.repeat(pa.scalar(0, pa.int32()), some))
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["x = 1"]))
    with parquet.ParquetWriter(path, pa.schema([("code", column.type), ("label", column.type)])) as writer:
        for _ in range(rows // some):
            writer.write_table(pa.table({"code": column, "label": column}))
    return path


def test_rows_without_number(tmp_path: Path) -> None:
    path = many_rows(tmp_path / "a.parquet", 100_000_000)
    assert path.stat().st_size < 2_000_000
    begun = time.monotonic()
    with pytest.raises(InputError, match="it has 100,000,000 rows, more than the 10,000,000 that are read"):
        list(read_files(f"labelled:{path}", (), SkipCounter()))
    with pytest.raises(InputError, match="has 100,000,000 rows, which no run writes"):
        read_scores(path)
    assert time.monotonic() - begun < 2


@pytest.mark.slow
def test_a_long_value_of_many_rows(tmp_path: Path) -> None:
    """Twenty megabytes, stored once, of a thousand rows: twenty gigabytes if all were made at once."""
    path = tmp_path / "a.parquet"
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, pa.int32()), pa.array(["x" * 20_000_000]))
    parquet.write_table(pa.table({"code": long, "label": pa.array(["a"] * 1_000)}), path)
    assert path.stat().st_size < 2_000_000
    code = f"""
from sonde.base.errors import SondeError
from sonde.base.process import measure_peak_memory
from sonde.corpora import SkipCounter, read_files
try:
    print(len(list(read_files("labelled:{path}", (), SkipCounter()))))
except SondeError as error:
    print(error)
print(measure_peak_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told, peak = done.stdout.splitlines()
    assert "more than 1,000,000,000 bytes" in told or "can be used" in told
    assert int(peak) < 1_000_000_000


def test_nested_values_are_not_unfolded(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    offsets = pa.array([0, *[20_000_000] * 20], pa.int32())
    bomb = pa.ListArray.from_arrays(offsets, pa.nulls(20_000_000, pa.int8()))
    texts = [f"x = {number}" for number in range(20)]
    parquet.write_table(pa.table({"code": texts, "label": ["a", "b"] * 10, "more": bomb}), path)
    before = measure_peak_memory()
    assert len(list(read_files(f"labelled:{path}", ("python",), SkipCounter()))) == 20
    assert measure_peak_memory() - before < 300_000_000


def test_texts_stored_once_and_each_for_itself_are_read_alike(tmp_path: Path) -> None:
    texts = [f"def f{number}(x):\n    return x + {number}\n" for number in range(600)]
    rows = {"code": texts, "label": ["a", "b"] * 300, "id": [str(number) for number in range(600)]}
    found = []
    for name, dictionary in (("a", True), ("b", False), ("c", ["label"])):
        path = tmp_path / name / "own.parquet"
        path.parent.mkdir()
        parquet.write_table(pa.table(rows), path, use_dictionary=dictionary)
        found.append(list(read_files(f"labelled:{path}", (), SkipCounter())))
    polars = tmp_path / "d" / "own.parquet"
    polars.parent.mkdir()
    pl.DataFrame(rows).write_parquet(polars)
    found.append(list(read_files(f"labelled:{polars}", (), SkipCounter())))
    assert found[0] and all(one == found[0] for one in found)
