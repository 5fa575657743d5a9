import errno
import fcntl
import os
from pathlib import Path

import pytest

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import expand_home, get_cache_root, write_atomic, write_folder


def test_content_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomic(path, "first")
    write_atomic(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="No space left on device; finished results are kept"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*; .*, name a writable folder and run again"):
        write_atomic(tmp_path / "file" / "below", "x")


def test_lone_surrogates_do_not_stop_a_page(tmp_path: Path) -> None:
    write_atomic(tmp_path / "page", "a\ud800b")
    assert (tmp_path / "page").read_text() == "a\\ud800b"


def test_a_user_without_a_home_folder_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_user: str) -> str:
        return "~"

    for variable in ("SONDE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.path.expanduser", unknown)
    with pytest.raises(UsageError, match=r"no home folder.*; set HOME to a folder"):
        get_cache_root()
    assert expand_home("~/code") == Path("~/code")
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path))
    assert get_cache_root() == tmp_path


def test_what_a_killed_writer_left_is_removed_and_what_another_one_writes_stays(tmp_path: Path) -> None:
    marks = [tmp_path / f".made-{name}" / ".writer" for name in ("killed", "alive", "new")]
    for mark in marks:
        mark.parent.mkdir()
        mark.write_bytes(b"")
    for mark in marks[:2]:
        os.utime(mark, (0, 0))
    with marks[1].open("wb") as alive:
        os.utime(marks[1], (0, 0))
        fcntl.flock(alive, fcntl.LOCK_EX)
        write_folder(tmp_path / "made", lambda folder: (folder / "file").write_text("whole"))
    assert [mark.exists() for mark in marks] == [False, True, True]
    assert (tmp_path / "made" / "file").read_text() == "whole"


def test_a_folder_that_another_process_wrote_meanwhile_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def write(folder: Path) -> None:
        (folder / "file").write_text("slower")
        made.mkdir()
        (made / "file").write_text("faster")

    write_folder(made, write)
    assert (made / "file").read_text() == "faster"
    write_folder(made, lambda folder: (folder / "file").write_text("replaced"), replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (made / "file").read_text() == "replaced"
