"""Files, items, sources and packages of corpora: what a source yields and every lens joins on.

Days on which code was written are texts such as ``2024-12-31``: they sort as the days do. The layout of a
folder of code decides its units: its projects, and the packages of each project.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Protocol, runtime_checkable

from sonde.base.errors import UsageError
from sonde.base.fingerprint import OMITTED_AT_DEFAULT, fingerprint
from sonde.base.options import Count, NonNegative, OneOf, check_fields, option
from sonde.base.progress import ignore_advance
from sonde.languages import LANGUAGES
from sonde.languages.engine.transforms import TRANSFORMS
from sonde.stats.verdict import MIN_CLUSTERS


def check_day(name: str, text: str) -> None:
    """Raise an error if a text is not a day.

    Args:
        name: Name of the option or field, for the message.
        text: The day.

    Raises:
        UsageError: It is not written as year, month and day.
    """
    try:
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(f"{name} = {text!r} is not a date; write it as 2024-12-31")


def format_day(seconds: int) -> str:
    """Format a time in seconds since 1970 as its day in UTC.

    >>> format_day(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def parse_utc_day(time: str) -> str:
    """Return the UTC day of an ISO 8601 time.

    >>> parse_utc_day("2024-12-31T23:30:00-05:00")
    '2025-01-01'

    Raises:
        ValueError, TypeError, OverflowError: It is no time.
    """
    return datetime.fromisoformat(time).astimezone(UTC).date().isoformat()


def find_day_range(dates: Sequence[tuple[int, str]], start: int, end: int) -> tuple[str, str]:
    """Find the oldest and the newest day of the ranges that a span of characters overlaps.

    >>> find_day_range([(0, "2020-01-01"), (10, "2024-01-01"), (20, "2022-01-01")], 12, 25)
    ('2022-01-01', '2024-01-01')

    Args:
        dates: Start and day of each range, in order; the last range ends with the text.
        start: First character of the span.
        end: One past its last.

    Returns:
        Two empty texts if no range is known.
    """
    ends = [begin for begin, _ in dates[1:]]
    days = [
        day
        for (begin, day), stop in zip(dates, [*ends, end + 1], strict=True)
        if begin < end and stop > start
    ]
    return (min(days), max(days)) if days else ("", "")


UNITS = ("function", "file")


@dataclass(frozen=True, slots=True)
class Tag:
    """A user's label on a span of characters, for example a part of speech."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Given:
    """A label that the source provides, as published data sets do; its task uses it unchanged.

    Attributes:
        task: Public name of the task that it answers.
        label: The label.
        start: First character of what is labelled.
        end: One past its last character.
        other_start: First character of the other end of a relation; -1 where there is none.
        other_end: One past its last character.
        split: ``"train"``, ``"valid"`` or ``"test"`` where the source says so; else empty.
        value: The number that the label is a class of; None where it is no number.
        group: What the source says is split as one with it; else empty.
    """

    task: str
    label: str
    start: int
    end: int
    other_start: int = -1
    other_end: int = -1
    split: str = ""
    value: float | None = field(default=None, metadata=OMITTED_AT_DEFAULT)
    group: str = field(default="", metadata=OMITTED_AT_DEFAULT)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a corpus, as text.

    Attributes:
        path: Path inside the source, with forward slashes; unique in the corpus.
        text: The decoded content (PEP 263 for Python), newlines as they are in the file.
        language: Public name of the language.
        cluster: What is resampled as one: a distribution, a package, a top-level module.
        repository: What definitions are looked up in when a call is called internal.
        licence: SPDX expression or the words of the metadata; empty where unknown.
        version: Version of the distribution, or the git revision; empty where unknown.
        unit: ``"file"``, or ``"function"`` where the source already holds single functions.
        line: First line of the text in the file that holds it, from 1.
        name: Name of the item where the source gives one.
        identifier: Id that the source itself gives (`jsonl`); empty otherwise.
        tags: A user's spans.
        given: Labels that the source brings.
        split: ``"train"``, ``"valid"`` or ``"test"`` where a built corpus was split; else empty.
        dates: Where each stretch of the text begins and the day on which it was last changed (UTC, as
            ``2024-12-31``), in order; empty where that was not asked for or is not known.
    """

    path: str
    text: str
    language: str
    cluster: str
    repository: str
    licence: str = ""
    version: str = ""
    unit: str = "file"
    name: str = ""
    identifier: str = ""
    tags: tuple[Tag, ...] = ()
    given: tuple[Given, ...] = ()
    split: str = ""
    dates: tuple[tuple[int, str], ...] = ()
    line: int = 1


@dataclass(frozen=True, slots=True)
class Item:
    """The unit that everything joins on: a function or a file.

    Attributes:
        item_id: Hash of content as it stands in the file, language and unit; equal content is one item.
        text: The code: the file's characters from ``offset`` on, without the blanks that indent the further
            decorators and the name of a method (`sonde.languages.Function.slice_from`).
        language: Public name of the language.
        unit: ``"function"`` or ``"file"``.
        path: Path of the file inside the corpus.
        name: Qualified name of the function, else the file's name.
        offset: First character in the file.
        cluster: The unit of resampling.
        repository: The unit of definition look-up.
        licence: Licence as known.
        context: What the model reads before the item; ``""`` for an item shown alone.
        docstring: The function's documentation; empty where there is none.
        identifier: Id given by the source, else ``item_id``.
        tags: A user's spans, relative to ``text``.
        given: Labels that the source brings, relative to ``text``.
        cuts: Characters at which no piece of a tokenizer may go on, for texts with a stretch to be masked.
        split: The split of its file, where the corpus was split when it was built; else empty.
        oldest: The day on which its oldest stretch was last changed; empty where that is not known.
        newest: The same of its newest stretch.
        period: ``"before"`` or ``"after"`` the date of `Selection.cut_off`; empty without one.
        original: Id of the item that it was before `Selection.transform`; empty without one.
        line: First line in the file, from 1; 0 where that is not known.
    """

    item_id: str
    text: str
    language: str
    unit: str
    path: str = ""
    name: str = ""
    offset: int = 0
    cluster: str = ""
    repository: str = ""
    licence: str = ""
    context: str = ""
    docstring: str = ""
    identifier: str = ""
    tags: tuple[Tag, ...] = ()
    given: tuple[Given, ...] = ()
    cuts: tuple[int, ...] = ()
    split: str = ""
    oldest: str = ""
    newest: str = ""
    period: str = ""
    original: str = ""
    line: int = 0


def item_id(text: str, language: str, unit: str) -> str:
    """Return the id of an item: a hash of its text, language and unit, not of its location."""
    return fingerprint("item", language, unit, text)


def _ignore_line(_line: str) -> None:
    return None


@dataclass(slots=True)
class TableCounts:
    """What a source read of a user's table.

    Attributes:
        rows: Rows of the table.
        used: Rows whose label is used; `SkipCounter.counts` has the others by reason.
        unread_columns: Names of the columns that no role in the query takes.
        hint: How the query names a column that may have been meant; empty without one.
    """

    rows: int
    used: int
    unread_columns: tuple[str, ...]
    hint: str


@dataclass(slots=True)
class SkipCounter:
    """Counts of skipped files and rows by reason, with the first few examples of each.

    Attributes:
        counts: Counts by reason.
        examples: The first few examples by reason.
        table: What was read of a user's table; None for any other source.
        advance: Called with the number of further files, or rows of a table, that were read.
        tell: Called with a line on what is about to be downloaded.
        keep_all: Whether files stay that nobody wrote for the project, as where a lock file names them.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    table: TableCounts | None = None
    advance: Callable[[int], None] = field(default=ignore_advance, compare=False, repr=False)
    tell: Callable[[str], None] = field(default=_ignore_line, compare=False, repr=False)
    keep_all: bool = field(default=False, compare=False, repr=False)

    def note(self, reason: str, example: str = "", count: int = 1) -> None:
        """Count an event, or several at once, keeping at most five examples of a reason."""
        self.counts[reason] += count
        examples = self.examples.setdefault(reason, [])
        if example and len(examples) < 5:
            examples.append(example)


@runtime_checkable
class Source(Protocol):
    """A corpus source: one file of this folder, its stem the scheme before the colon."""

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the files in an order that depends on their paths alone.

        Args:
            argument: The text after the colon: ``DIR`` in ``local:DIR``; may be empty.
            languages: Public names of the requested languages; empty means all that the source holds.
            intake: Counts skipped files by reason.

        Raises:
            InputError: The argument names nothing that can be read.
        """
        ...


@runtime_checkable
class LabelledSource(Source, Protocol):
    """A source whose files bring labels of tasks that a run asks where it names none."""

    def tasks(self, argument: str) -> tuple[str, ...]:
        """Return the public names of the tasks; reads only the head of the file.

        Raises:
            InputError: The argument names nothing that can be read.
        """
        ...


@runtime_checkable
class DatedSource(Source, Protocol):
    """A source that knows when its files were written."""

    def dated_files(
        self, argument: str, languages: tuple[str, ...], intake: SkipCounter
    ) -> Iterator[SourceFile]:
        """Yield what `files` does, with `SourceFile.dates`.

        Raises:
            InputError: As `files`, or when a file was written is not known.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Options that select items from a corpus. Selection is by hash: order and machine do not matter.

    Items are taken from the clusters in turn, so that as many clusters as there are speak in a small sample.
    """

    unit: Annotated[str, OneOf(UNITS)] = option("function", "what an item is", flag="--unit")
    languages: tuple[str, ...] = option(
        (),
        "only this language; see `sonde list languages`",
        flag="--language",
        unset="all languages of a corpus",
        synonyms=("programming language",),
    )
    limit: Count | None = option(
        None,
        "at most this many items per language; a larger sample contains a smaller one",
        flag="--limit",
        synonyms=("sample size", "number of items", "subset", "how many functions"),
    )
    per_cluster: NonNegative = option(
        200,
        "at most this many items per cluster; 0 for no cap, as in a corpus of one cluster",
        flag="--per-cluster",
        synonyms=("cap", "repository limit"),
    )
    min_chars: NonNegative = option(1, "leave out items with fewer characters")
    max_chars: NonNegative | None = option(None, "leave out items with more characters")
    licences: tuple[str, ...] = option(
        (),
        "only items with one of these words in their licence, such as MIT or BSD",
        unset="all, known or not",
    )
    parses: bool = option(False, "only items without a parse error")
    several_files: bool = option(False, "only repositories with at least two files")
    near_duplicates: bool = option(
        True,
        "leave out near-duplicates; exact duplicates are left out in any case",
        synonyms=("dedup", "deduplicate", "copies"),
    )
    seed: NonNegative = option(
        0,
        "seed of sampling and of everything random",
        flag="--seed",
        synonyms=("random state", "reproducible"),
    )
    cut_off: str | None = option(
        None,
        "a date, as 2024-12-31: only items written wholly before it, or wholly from that day on "
        "and unlike any older one; surprisal compares the two",
        flag="--cut-off",
        omitted_at_default=True,
        synonyms=("contamination", "memorisation", "knowledge cutoff", "training date"),
    )
    transform: Annotated[str, OneOf(("none", *TRANSFORMS))] = option(
        "none",
        "rewrite programs so that they do the same: rename variables to v0, v1, ... (rename), "
        "swap names (shuffle), take names of other functions (mislead), normalise layout, also "
        "leave out comments or docstrings, or swap independent statements. `sonde compare` "
        "compares the run with one without",
        flag="--transform",
        omitted_at_default=True,
        synonyms=("rename variables", "perturbation", "robustness", "augmentation"),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.cut_off is not None:
            check_day("cut_off", self.cut_off)
        # A language may be handed in as a folder; from here on it goes by its name.
        object.__setattr__(self, "languages", tuple(map(LANGUAGES.hand_in, self.languages)))


@dataclass(frozen=True, slots=True)
class ItemSet:
    """The items of a run, in the order of selection: those of a smaller limit come first.

    Attributes:
        corpus: The corpus as named on the command line.
        items: The chosen items, language by language.
        corpus_hash: Hash of every file's path and content hash that the source yielded.
        intake: What was skipped or dropped on the way, by reason.
        selection: How the items were chosen.
        file_hashes: Path to content hash, of the files that hold the items.
        found: How many items the corpus holds in the languages wanted; 0 where they were not counted.
        left_out: How many of them were not chosen, by reason; the reasons and the items add up to ``found``.
    """

    corpus: str
    items: tuple[Item, ...]
    corpus_hash: str
    intake: SkipCounter
    selection: Selection = field(default_factory=Selection)
    file_hashes: Mapping[str, str] = field(default_factory=dict)
    found: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


_MARKERS = (
    ".git",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "build.xml",
    "package.json",
    "go.mod",
    "composer.json",
    "Gemfile",
)


_SOURCE_ROOT = "src"


def is_project(folder: Path) -> bool:
    """Return whether a folder is a project: a git repository, or a folder with a build file."""
    # `Path` raises where a folder cannot be looked at.
    return any(os.path.exists(folder / marker) for marker in _MARKERS)  # noqa: PTH110


def find_projects(paths: Iterable[str]) -> frozenset[str]:
    """Find the project folders among the paths of a repository's files, its root included."""
    pure_paths = (PurePosixPath(path) for path in paths)
    return frozenset({".", *(str(path.parent) for path in pure_paths if path.name in _MARKERS)})


def holds_projects(folder: Path) -> bool:
    """Return whether a folder is not a project but has at least one project directly below it."""
    if is_project(folder):
        return False
    subfolders = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return any(is_project(entry) for entry in subfolders)


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one project.

    A file's package is the uppermost folder on its way down that itself holds source files; namespace
    folders such as ``com/example`` and the source root ``src`` are passed through. Where all files are in one
    package, that is passed through as well. A file right in the project, in its source root or in its one
    package is a package by itself, named by its stem.

    Attributes:
        folders: Folders that directly hold source files.
        namespaces: Folders among them that are passed through.
    """

    folders: frozenset[str]
    namespaces: frozenset[str] = frozenset({_SOURCE_ROOT})

    @classmethod
    def from_paths(cls, paths: Iterable[str]) -> Packages:
        """Build the packages of a project from the paths of its source files."""
        all_paths = list(paths)
        packages = cls(frozenset(str(PurePosixPath(path).parent) for path in all_paths))
        while len(names := {packages.package(path) for path in all_paths}) == 1 and names <= packages.folders:
            packages = cls(packages.folders, packages.namespaces | names)
        return packages

    def package(self, path: str) -> str:
        """Return the name of the package of a path, with forward slashes.

        >>> project = Packages.from_paths(["src/web/app.py", "src/web/db/pool.py", "setup.py"])
        >>> project.package("src/web/db/pool.py"), project.package("setup.py")
        ('src/web', 'setup')
        """
        parts = PurePosixPath(path).parts
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder in self.folders and folder not in self.namespaces:
                return folder
        return PurePosixPath(path).stem


def assign_package_clusters(units: Mapping[str, str]) -> dict[str, str]:
    """Assign each path of a repository to its package, or to its file if there are too few packages.

    Files where packages are fewer than a verdict needs and files are not.

    Args:
        units: Path to unit, as sources give them: ``file``, or ``function`` for what was cut out of a file,
            whose path is then ``file#id``; one without a file belongs to no package.

    Returns:
        Path to package; empty where there is only one.
    """
    files = _file_paths(units)
    packages = Packages.from_paths(files.values())
    clusters = {path: packages.package(file) for path, file in files.items()}
    number = len(set(clusters.values()))
    return (
        assign_file_clusters(units) or (clusters if number > 1 else {}) if number < MIN_CLUSTERS else clusters
    )


def assign_file_clusters(units: Mapping[str, str]) -> dict[str, str]:
    """Assign each path to its file as the cluster; empty if there are too few files."""
    clusters = {path: str(PurePosixPath(file).with_suffix("")) for path, file in _file_paths(units).items()}
    return clusters if len(set(clusters.values())) >= MIN_CLUSTERS else {}


def _file_paths(units: Mapping[str, str]) -> dict[str, str]:
    files = {path: path.rpartition("#")[0] if unit == "function" else path for path, unit in units.items()}
    return {path: file for path, file in files.items() if file}
