import os
from pathlib import Path

import pytest

from sonde.corpora.engine.corpus import SkipCounter
from sonde.corpora.engine.source_files import MAX_BYTES, MAX_LINE, decode, read_text


def text_of(raw: bytes, path: str = "a.py") -> tuple[str | None, dict[str, int]]:
    intake = SkipCounter()
    return decode(raw, path, intake), dict(intake.counts)


def test_pep_263_declared_encoding() -> None:
    raw = "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")
    assert text_of(raw)[0] == "# -*- coding: latin-1 -*-\nname = 'é'\n"


def test_declarations_count_in_python_only() -> None:
    raw = "# coding: latin-1\né\n".encode("latin-1")
    assert text_of(raw, "a.java") == (None, {"not decodable": 1})


def test_byte_order_mark_is_no_character() -> None:
    assert text_of(b"\xef\xbb\xbfx = 1\n")[0] == "x = 1\n"
    assert text_of(b"\xef\xbb\xbfclass A {}", "A.java")[0] == "class A {}"


def test_newlines_stay() -> None:
    assert text_of(b"a\r\nb\rc\n\x0cd")[0] == "a\r\nb\rc\n\x0cd"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"x = '\xff'\n", "not decodable"),
        (b"# coding: no-such-codec\n", "not decodable"),
        (b"# coding: hex\n", "not decodable"),
        (b"# coding: utf-7\n'+2AA-'\n", "not decodable"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "not decodable"),
        (b"x = 1\0\n", "NUL bytes"),
        (b"x = 1\n" * (MAX_BYTES // 6 + 1), "too large"),
        (b"x" * 1_000_000, "very long line"),
    ],
)
def test_what_cannot_be_read_is_counted_and_skipped(raw: bytes, reason: str) -> None:
    assert text_of(raw) == (None, {reason: 1})


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert text_of(b"x" * MAX_LINE + b"\n" + b"y" * 10)[0] is not None


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tmp_path / "huge.py"
    with huge.open("wb") as handle:
        handle.truncate(50_000_000)
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read into memory"))
    intake = SkipCounter()
    assert read_text(huge, "huge.py", intake) is None
    assert intake.counts == {"too large": 1}


def test_links_pipes_and_missing_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("x = 1\n")
    (tmp_path / "link.py").symlink_to("real.py")
    os.mkfifo(tmp_path / "pipe.py")
    intake = SkipCounter()
    for name in ("real.py", "link.py", "pipe.py", "gone.py"):
        read_text(tmp_path / name, name, intake)
    assert intake.counts == {"symbolic link": 1, "not a regular file": 1, "unreadable": 1}
