"""Tables that several runs share: by key, whole or not at all, within a bound."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from sonde.base.errors import StoreError, UsageError
from sonde.cli.commands import app
from sonde.store.parts import PartStore, TableCache

FRAME = pl.DataFrame({"x": list(range(1000))})


def kept(tmp_path: Path, key: str, name: str = "first", most: int = 10**9) -> TableCache:
    cache, store = TableCache(tmp_path / "cache", most), PartStore(tmp_path / name)
    store.put("part.parquet", key, FRAME, {"forwards": {"run": 3}})
    cache.add(store, "part.parquet")
    return cache


@pytest.mark.parametrize("links", [True, False])
def test_another_run_takes_what_one_wrote(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:

        def refuses(*_: object) -> None:
            raise OSError("another file system")

        monkeypatch.setattr(os, "link", refuses)
    cache, second = kept(tmp_path, "ab12"), PartStore(tmp_path / "second")
    assert cache.take(second, "named/otherwise.parquet", "ab13") is None
    assert cache.take(second, "named/otherwise.parquet", "ab12") == {"forwards": {"run": 3}, "cached": True}
    assert second.notes("named/otherwise.parquet", "ab12") == {"forwards": {"run": 3}, "cached": True}
    assert pl.read_parquet(second.path("named/otherwise.parquet")).equals(FRAME)
    same = second.path("named/otherwise.parquet").samefile(tmp_path / "first" / "part.parquet")
    assert same == links
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_damaged_table_is_none_and_is_made_good(tmp_path: Path) -> None:
    cache, second = kept(tmp_path, "ab12"), PartStore(tmp_path / "second")
    (table,) = (tmp_path / "cache").rglob("*.parquet")
    data = bytearray(table.read_bytes())
    data[40] ^= 1
    table.write_bytes(data)
    assert cache.take(second, "part.parquet", "ab12") is None
    kept(tmp_path, "ab12", "third")
    assert cache.take(second, "part.parquet", "ab12") is not None
    (about,) = (tmp_path / "cache").rglob("*.json")
    about.write_text("{")
    assert cache.take(second, "part.parquet", "ab12") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    for place, key in enumerate(("aa", "bb", "cc")):
        kept(tmp_path, key)
        (table,) = (tmp_path / "cache" / key).glob("*.parquet")
        os.utime(table, (place, place))
    size = table.stat().st_size
    cache, second = TableCache(tmp_path / "cache", 2 * size + 1), PartStore(tmp_path / "second")
    assert cache.take(second, "part.parquet", "aa") is not None
    cache.trim()
    assert sorted(one.stem for one in (tmp_path / "cache").rglob("*.parquet")) == ["aa", "cc"]
    assert sorted(one.stem for one in (tmp_path / "cache").rglob("*.json")) == ["aa", "cc"]


def test_no_bytes_are_no_cache(tmp_path: Path) -> None:
    cache = kept(tmp_path, "ab12", most=0)
    assert not (tmp_path / "cache").exists()
    assert cache.take(PartStore(tmp_path / "second"), "part.parquet", "ab12") is None
    cache.trim()


def test_a_cache_that_cannot_be_written_stops_no_run(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    kept(tmp_path, "ab12")
    assert (tmp_path / "first" / "part.parquet").is_file()


def test_a_cache_that_may_not_be_read_or_removed_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path, "ab12")
    cache, second = TableCache(tmp_path / "cache", 1), PartStore(tmp_path / "second")

    def refuses(*_arguments: object, **_named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for broken in ("unlink", "rglob", "stat"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, broken, refuses)
            cache.trim()
    for broken in ("read_bytes", "read_text"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, broken, refuses)
            assert cache.take(second, "part.parquet", "ab12") is None
    assert cache.take(second, "part.parquet", "ab12") is not None


def test_what_is_not_removed_is_not_called_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pypi").mkdir()
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))

    def refuses(*_arguments: object, **_named: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for broken, command, told in (
        ("shutil.rmtree", "clear", "cannot remove"),
        ("pathlib.Path.is_dir", "clear", "cannot read"),
        ("pathlib.Path.is_dir", "info", "cannot read"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(broken, refuses)
            done = CliRunner().invoke(app, ["cache", command])
        assert isinstance(done.exception, StoreError) and not done.output
        assert str(done.exception).startswith(f"{told} {tmp_path}")


def test_a_table_of_a_clock_that_was_ahead_goes_first(tmp_path: Path) -> None:
    """Else it would stay for good, and push out each table that is written."""
    for key in ("aa", "bb"):
        kept(tmp_path, key)
    (ahead,) = (tmp_path / "cache" / "aa").glob("*.parquet")
    year_2100 = 4_102_444_800
    os.utime(ahead, (year_2100, year_2100))
    TableCache(tmp_path / "cache", ahead.stat().st_size + 1).trim()
    assert [one.stem for one in (tmp_path / "cache").rglob("*.parquet")] == ["bb"]


def test_the_bound_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    monkeypatch.setenv("SONDE_CACHE_SIZE", "0.5")
    assert TableCache.from_environment() == TableCache(tmp_path / "observations", 500_000_000)
    monkeypatch.delenv("SONDE_CACHE_SIZE")
    assert TableCache.from_environment().maximum == 10_000_000_000
    for wrong in ("much", "inf"):
        monkeypatch.setenv("SONDE_CACHE_SIZE", wrong)
        with pytest.raises(UsageError, match="not a number of gigabytes"):
            TableCache.from_environment()


WRITER = """
import sys
from pathlib import Path
import polars as pl
from sonde.store.parts import TableCache
from sonde.store.parts import PartStore

folder, name = Path(sys.argv[1]), sys.argv[2]
cache, frame = TableCache(folder / "cache", 20_000), pl.DataFrame({"x": list(range(1000))})
found = 0
for number in range(60):
    key = f"{number % 7:02d}"
    mine, other = PartStore(folder / f"{name}{number}"), PartStore(folder / f"{name}{number}t")
    mine.put("part.parquet", key, frame, {})
    cache.add(mine, "part.parquet")
    if cache.take(other, "part.parquet", key) is not None:
        found += 1
        assert other.notes("part.parquet", key) is not None
    cache.trim()
print(found)
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    line = [sys.executable, "-P", "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*line, name], stdout=subprocess.PIPE, text=True) for name in "ab"]
    found = [int(writer.communicate()[0]) for writer in writers]
    assert all(found) and all(writer.returncode == 0 for writer in writers)
