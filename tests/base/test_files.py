import errno
from pathlib import Path

import pytest

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import expand_home, get_cache_root, write_atomic


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
    with pytest.raises(
        StoreError, match=r"cannot write .*; .*, name a place that can be written and run again"
    ):
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
