"""Which files are source: a walk over a folder, and the language of a file by its suffix."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from sonde.corpora._corpus import Intake
from sonde.corpora._decode import is_unicode
from sonde.languages import LANGUAGES

NOT_SOURCE = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
"""Folders that hold what was compiled, installed or fetched."""

BUILT = frozenset({"build", "dist", "target"})
"""Folders of a project that hold what a build made."""

NOTEBOOK = ".ipynb"
"""Suffix of notebooks, whose cells of code are read as Python."""

UNREAD = ", a kind of code that is not read"

VENDORED = frozenset({"vendor", "vendored", "_vendor", "third_party", "thirdparty", "bower_components"})
"""Folders of a project that hold copies of other projects."""

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


_IN_NOTEBOOKS = "python"
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
    table = {suffix: name for name in names for suffix in LANGUAGES.load(name).suffixes}
    return {**table, NOTEBOOK: _IN_NOTEBOOKS} if _IN_NOTEBOOKS in names else table


_OTHER_CODE = frozenset(
    (
        *(".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte", ".coffee", ".dart", ".elm"),
        *(".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cu", ".m", ".mm", ".cs", ".vb", ".fs", ".d"),
        *(
            ".rs",
            ".swift",
            ".zig",
            ".nim",
            ".kt",
            ".kts",
            ".scala",
            ".groovy",
            ".clj",
            ".cljs",
            ".ex",
            ".exs",
        ),
        *(".erl", ".hs", ".ml", ".mli", ".lisp", ".el", ".scm", ".rkt", ".jl", ".r", ".R", ".Rmd", ".lua"),
        *(".pl", ".pm", ".sh", ".bash", ".zsh", ".ps1", ".sql", ".f", ".f90", ".pas", ".v", ".sv", ".vhd"),
        *(".sol", ".tcl", ".proto", ".pyx", ".pxd", ".ipynb", ".phtml", ".jsp", ".erb"),
    )
)
"""Suffixes of code that may be in no language of sonde."""


def note_unread(paths: Iterable[str], languages: tuple[str, ...], intake: Intake) -> None:
    """Count the files of code that no language reads, by suffix.

    Args:
        paths: Paths of all files.
        languages: Languages that were asked for; where some were, other files are expected and not counted.
        intake: Counts them as ``.ts files, a kind that is not read``.
    """
    if languages:
        return
    table = suffix_table(LANGUAGES.names())
    for path in paths:
        suffix = PurePosixPath(path).suffix
        if suffix in _OTHER_CODE and suffix not in table:
            intake.note(f"{suffix} file{UNREAD}", path)


def language_of(path: str, table: dict[str, str]) -> str | None:
    """The language of a path by a `suffix_table`; None where no wanted language has its suffix."""
    return table.get(PurePosixPath(path).suffix)


def language_of_path(path: str) -> str | None:
    """The language of a path by its suffix, prose included; None where no language has it."""
    return language_of(path, suffix_table(LANGUAGES.names()))
