"""Walking a folder: sorted, symbolic links not followed, what is not source left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from sonde.corpora._corpus import Intake
from sonde.corpora._decode import is_unicode

NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
"""Folders that hold what was compiled, installed or fetched."""

TEST_FOLDERS = frozenset({"test", "tests", "idle_test"})
"""Folders of tests, by the names that packages give them."""


def is_environment(folder: Path) -> bool:
    """Whether a folder is a virtual environment, by the file that every one holds."""
    return (folder / "pyvenv.cfg").is_file()


def walk(root: Path, intake: Intake, skip: Callable[[str], bool]) -> Iterator[str]:
    """Paths of the files below a folder, relative to it, with forward slashes, in sorted order.

    Hidden folders and virtual environments are left out. Symbolic links are not followed: linked folders
    are counted here, linked files where they are read.

    Args:
        root: An existing folder.
        intake: Counts ``symbolic link``, ``unreadable`` folders and names that are ``not Unicode``.
        skip: Tells by its relative path whether a folder is left out.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            intake.note("unreadable", folder)
            continue
        below: list[str] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if not is_unicode(entry.name):
                intake.note("name is not Unicode", ascii(path))
            elif entry.is_symlink() and entry.is_dir():
                intake.note("symbolic link", path)
            elif entry.is_dir(follow_symlinks=False):
                hidden = entry.name.startswith(".")
                if not (hidden or skip(path) or is_environment(Path(entry.path))):
                    below.append(path)
            else:
                yield path
        pending.extend(reversed(below))
