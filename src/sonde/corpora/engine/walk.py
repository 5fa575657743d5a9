"""Which files are source: a walk over a folder, and the language of a file by its suffix."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from sonde.corpora.engine.corpus import SkipCounter
from sonde.corpora.engine.decode import is_unicode
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


def walk(root: Path, intake: SkipCounter, skip: Callable[[str], bool]) -> Iterator[str]:
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


def count_unread_files(paths: Iterable[str], languages: tuple[str, ...], intake: SkipCounter) -> None:
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


def find_language(path: str, table: dict[str, str]) -> str | None:
    """The language of a path by a `suffix_table`; None where no wanted language has its suffix."""
    return table.get(PurePosixPath(path).suffix)


def find_path_language(path: str) -> str | None:
    """The language of a path by its suffix, prose included; None where no language has it."""
    return find_language(path, suffix_table(LANGUAGES.names()))


HEAD_LINES = 15
"""Lines in which a marker counts, a licence of usual length before it included."""


_MINIFIED = re.compile(r"[.-]min\.\w+$")


LONGEST_LINE = 1_000


MOST_DIGITS = 0.3


_SOURCE_MAP = ("//# sourceMappingURL=", "/*# sourceMappingURL=")


_AUTO = r"(?:auto(?:matically|[- ]?)|machine[- ]|tool[- ])"


_MARKER = re.compile(
    rf"""
    @generated\b
  | \b{_AUTO}\s?generated\b
  | \b(?:do\ not|don't|never)\ (?:edit|modify|change)\b(?!\ and\b)
  | ^\W*(?:(?:this|the)\ (?:file|code|module|class|package|script)\s(?:is|was|has\ been)\s)?
      (?:code\s)?generated\s(?:by|from|on|protocol\ buffer)\b
  | \b(?:file|code|module|class|codec)\s(?:is|was|has\ been|be)?\s?generated\s(?:by|from|with|using)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


_COMMENT = re.compile(r"\s*(?:\#|//|/\*|\*|--|[rub]*\"|[rub]*'{3})", re.IGNORECASE)


_QUOTES = ('"""', "'''")


ANOTHER_PACKAGE = "another package inside"


GENERATED_PATH = "generated: its path says so"


def is_handwritten(path: str, text: str, intake: SkipCounter) -> bool:
    """Return whether a file was written by a person for its own project; the reason against is counted.

    Args:
        path: Path inside the corpus.
        text: The content.
        intake: Counts what was minified, generated, or copied from another project; it may keep all.
    """
    if intake.keep_all:
        return True
    if not VENDORED.union(NOT_SOURCE).isdisjoint(PurePosixPath(path).parts[:-1]):
        intake.note(ANOTHER_PACKAGE, path)
    elif _MINIFIED.search(path):
        intake.note(GENERATED_PATH, path)
    elif sign := find_generated_sign(text):
        intake.note(sign, path)
    else:
        return True
    return False


def find_generated_sign(text: str) -> str:
    """The sign that a text was generated, in words; empty where there is none."""
    if len(text) > LONGEST_LINE and max(map(len, text.splitlines()), default=0) > LONGEST_LINE:
        return "generated: a line of more than 1,000 characters"
    if text[-LONGEST_LINE:].rstrip().rpartition("\n")[2].startswith(_SOURCE_MAP):
        return "generated: its last line names its source"
    if sum(map(text.count, "0123456789")) > MOST_DIGITS * len(text):
        return "generated: mostly digits"
    return "generated: its head says so" if _has_generated_notice(text) else ""


def _has_generated_notice(text: str) -> bool:
    inside = ""
    for line in text.split("\n", HEAD_LINES)[:HEAD_LINES]:
        if (inside or _COMMENT.match(line)) and _MARKER.search(line):
            return True
        for quotes in _QUOTES:
            if inside in ("", quotes) and line.count(quotes) % 2:
                inside = "" if inside else quotes
    return False
