"""Folders with what no one expects in them: what cannot be read is counted in a line, the rest is read."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from sonde.corpora import SkipCounter, read_files
from sonde.corpora.engine import source_files

GOOD = {"a.py": "x = 1\n", "z/b.py": "y = 1\n"}


def folder_loop(root: Path) -> None:
    (root / "loop").symlink_to("loop")


def loop_of_two(root: Path) -> None:
    (root / "one.py").symlink_to("two.py")
    (root / "two.py").symlink_to("one.py")


def link_upward(root: Path) -> None:
    (root / "z" / "up").symlink_to("..")


def dangling(root: Path) -> None:
    (root / "gone.py").symlink_to("nowhere")
    (root / "gone").symlink_to("/nowhere/at/all")


def link_out(root: Path) -> None:
    (root / "passwd.py").symlink_to("/etc/passwd")
    (root / "etc").symlink_to("/etc")


def sockets(root: Path) -> None:
    # A socket's name may have no more than 108 characters.
    with chdir(root), socket.socket(socket.AF_UNIX) as talk:
        talk.bind("talk.py")


def pipes(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    os.mkfifo(root / "pyproject.toml")


def folder_like_a_file(root: Path) -> None:
    (root / "folder.py").mkdir()


def odd_bytes(root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.py"))).write_text("x = 1\n")
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))).mkdir()


def odd_names(root: Path) -> None:
    for name in ("new\nline.py", "tab\t.py", "\x1b[31mred.py", "\u202egnp.py", " .py", "[red].py"):
        (root / name).write_text("n = 1\n")


def unreadable(root: Path) -> None:
    (root / "secret.py").write_text("s = 1\n")
    (root / "closed").mkdir()


def deep(root: Path) -> None:
    """Deeper than a path may be long: what lies too deep to be named is not read."""
    with chdir(root):
        for _ in range(40):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        Path("deep.py").write_text("d = 1\n")


KINDS: dict[Callable[[Path], None], dict[str, int]] = {
    folder_loop: {"symbolic link": 1},
    loop_of_two: {"symbolic link": 2},
    link_upward: {"symbolic link": 1},
    dangling: {"symbolic link": 1},
    link_out: {"symbolic link": 2},
    sockets: {"not a regular file": 1},
    pipes: {"not a regular file": 1},
    folder_like_a_file: {},
    odd_bytes: {"name is not Unicode": 2},
    odd_names: {},
    unreadable: {"unreadable": 2},
    deep: {"unreadable": 1},
}


def planted(tmp_path: Path) -> Path:
    root = tmp_path / "theirs"
    for path, text in GOOD.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize("plant", KINDS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("below", [False, True], ids=["itself", "project"])
def test_the_rest_is_read(
    plant: Callable[[Path], None], below: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = planted(tmp_path)
    plant(root)
    if plant is unreadable:
        _close(monkeypatch, root / "secret.py", root / "closed")
    intake = SkipCounter()
    found = list(read_files(f"local:{tmp_path if below else root}", (), intake))
    before = "theirs/" if below else ""
    texts = {file.path: file.text for file in found}
    assert {f"{before}{path}": text for path, text in GOOD.items()}.items() <= texts.items()
    more = 6 if plant is odd_names else 0
    assert len(found) == len(GOOD) + more
    assert dict(intake.counts) == KINDS[plant]


def _close(monkeypatch: pytest.MonkeyPatch, *closed: Path) -> None:
    """Deny what permissions deny to everybody but the superuser, who may run these tests."""
    scan, opened = os.scandir, os.open

    def denied(path: object) -> bool:
        return Path(str(path)) in closed

    def scandir(path: str) -> object:
        if denied(path):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    def open_(path: str, *arguments: int, **named: int) -> int:
        if denied(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "open", open_)


def test_what_vanishes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = planted(tmp_path)
    for number in range(20):
        (root / f"m{number:02}.py").write_text("m = 1\n")
    intake = SkipCounter()
    files = read_files(f"local:{root}", (), intake)
    assert next(files).path == "a.py"
    shutil.rmtree(root)
    assert list(files) == []
    assert dict(intake.counts) == {"unreadable": 21}


def test_what_is_exchanged_between_looking_and_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regular file becomes a link out of the folder, or a pipe that nobody writes to."""
    root = planted(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("hunter2 = 1\n")
    is_regular = source_files.stat.S_ISREG

    def exchange(kind: str) -> None:
        (root / "a.py").unlink(missing_ok=True)
        if kind == "link":
            (root / "a.py").symlink_to(secret)
        else:
            os.mkfifo(root / "a.py")

    for kind in ("link", "pipe"):
        (root / "a.py").unlink()
        (root / "a.py").write_text("x = 1\n")

        def looked(mode: int, kind: str = kind) -> bool:
            if (root / "a.py").is_file() and not (root / "a.py").is_symlink():
                exchange(kind)
                return True
            return is_regular(mode)

        with monkeypatch.context() as patched:
            patched.setattr(source_files.stat, "S_ISREG", looked)
            intake, texts = SkipCounter(), []
            reader = threading.Thread(
                target=lambda intake=intake, texts=texts: texts.extend(
                    file.text for file in read_files(f"local:{root}", (), intake)
                ),
                daemon=True,
            )
            reader.start()
            reader.join(20)
            assert not reader.is_alive()
        assert texts == ["y = 1\n"]
        assert sum(intake.counts.values()) == 1


@pytest.mark.slow
def test_a_hundred_thousand_small_files(tmp_path: Path) -> None:
    names = [f"{number // 1000:03}/m{number:06}.py" for number in range(100_000)]
    for number in range(100):
        (tmp_path / f"{number:03}").mkdir()
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    begun, intake = time.monotonic(), SkipCounter()
    assert [file.path for file in read_files(f"local:{tmp_path}", (), intake)] == names
    assert not intake.counts
    assert time.monotonic() - begun < 120
