"""Which files are source: a walk over a folder, and the language of a file by its suffix."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from sonde.corpora._corpus import Intake
from sonde.corpora._decode import is_unicode
from sonde.languages import LANGUAGES

NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
"""Folders that hold what was compiled, installed or fetched."""

BUILT = frozenset({"build", "dist", "target"})
"""Folders of a project that hold what a build made."""

TEST_FOLDERS = frozenset({"test", "tests", "idle_test", "testdata", "__tests__"})
"""Folders of tests, by the names that packages give them."""


def is_environment(folder: Path) -> bool:
    """Whether a folder is a virtual environment, by the file that every one holds."""
    return os.path.isfile(folder / "pyvenv.cfg")  # noqa: PTH113  False where the folder cannot be looked at


def walk(root: Path, intake: Intake, skip: Callable[[str], bool]) -> Iterator[str]:
    """Paths of the files below a folder, relative to it, with forward slashes, in sorted order.

    Hidden folders and virtual environments are left out. Symbolic links are not followed: linked folders
    and links in a circle are counted here, linked files where they are read.

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
            elif entry.is_symlink():
                if _names_a_file(entry):
                    yield path
                else:
                    intake.note("symbolic link", path)
            elif entry.is_dir(follow_symlinks=False):
                hidden = entry.name.startswith(".")
                if not (hidden or skip(path) or is_environment(Path(entry.path))):
                    below.append(path)
            else:
                yield path
        pending.extend(reversed(below))


def _names_a_file(link: os.DirEntry[str]) -> bool:
    """Whether a link leads to a file or nowhere, and neither to a folder nor in a circle."""
    try:
        return not link.is_dir()
    except OSError:
        return False


_PROSE = {"text"}
"""Read where it is asked for by name: notes and licences beside code are no code."""


def suffix_table(languages: tuple[str, ...]) -> dict[str, str]:
    """File suffix (with its dot) to the public name of its language.

    Args:
        languages: Public names; empty means every language of code.

    Raises:
        UnknownNameError: A language that does not exist.
    """
    names = languages or sorted(set(LANGUAGES.names()) - _PROSE)
    return {suffix: name for name in names for suffix in LANGUAGES.load(name).suffixes}


def language_of(path: str, table: dict[str, str]) -> str | None:
    """The language of a path by a `suffix_table`; None where no wanted language has its suffix."""
    return table.get(PurePosixPath(path).suffix)


def language_of_path(path: str) -> str | None:
    """The language of a path by its suffix, prose included; None where no language has it."""
    return language_of(path, suffix_table(LANGUAGES.names()))
