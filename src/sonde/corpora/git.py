"""A revision of a git repository, read without a checkout."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._decode import MAX_BYTES, decode, is_unicode
from sonde.corpora._generated import GENERATED_PATH, is_written
from sonde.corpora._git_command import GitRepository, is_repository, open_repository
from sonde.corpora._git_dates import in_characters, last_changes, line_days
from sonde.corpora._layout import Packages, projects_of
from sonde.corpora._walk import BUILT, language_of, note_unread, suffix_table

_REGULAR = ("100644", "100755")
_MISSING = "missing in the repository"
_MOST_AT_ONCE, _MOST_NUMBER = 20_000_000, 1_000
"""Bytes and number of the files that one call of git is asked for."""


class _Blob(NamedTuple):
    """Hash and bytes of a file."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class _Request:
    """``PATH[@REV][?since=DATE&until=DATE]``, parsed; dates are a first moment and one past the last."""

    path: Path
    revision: str
    since: datetime | None
    until: datetime | None

    def takes(self, changed: Mapping[str, int], path: str) -> bool:
        """Whether a file was last changed in the time that is asked for."""
        time = changed.get(path, 0)
        return (self.since is None or time >= self.since.timestamp()) and (
            self.until is None or time < self.until.timestamp()
        )


def _parse(argument: str) -> _Request:
    location, _, query = argument.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    since, until = (_date(argument, name, options.pop(name, None)) for name in ("since", "until"))
    if options:
        raise UsageError(f"corpus 'git:{argument}': unknown option {min(options)!r}; known: since, until")
    path, _, revision = location.rpartition("@")
    if not path or expand_home(location).is_dir():
        path, revision = location, "HEAD"
    if not path or revision.startswith("-"):
        raise UsageError(f"corpus 'git:{argument}': name it as git:PATH[@REV][?since=DATE&until=DATE]")
    return _Request(expand_home(path), revision, since, until)


def _date(argument: str, name: str, text: str | None) -> datetime | None:
    """A moment of the query; a whole day is over when the next one begins."""
    if text is None:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"corpus 'git:{argument}': {name}={text!r} is no date; write it as 2024-12-31"
        ) from None
    if name == "until" and len(text) == len("2024-12-31"):
        date += timedelta(days=1)
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


class Git:
    """`git:PATH[@REV][?since=DATE&until=DATE]`: repository is the folder's name, clusters are its packages.

    ``git:FOLDER/*`` reads every repository of a folder, their paths below their names. ``since`` keeps the
    files that a commit on or after the date (UTC where no zone is given) touched: code that a model trained
    before that date cannot have read in this form; ``until`` those that none touched after it. Submodules,
    symbolic links and what the repository lacks (a partial clone) are skipped and counted, and so is what
    was generated, minified, built or copied from another project, as `local` leaves it out. What the
    repository configures is not obeyed, and nothing is fetched.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the files of the revision, sorted by path.

        Raises:
            InputError: There is no git, no repository at PATH, or no such revision.
            UsageError: An unknown option, or a date that is none.
        """
        return _files(argument, languages, intake, dated=False)

    def dated_files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """The same, with the days on which commits last changed the lines (``git blame``).

        A file's own day would make all its functions as new as the last of them.

        Raises:
            InputError: As `files`, or the history was cut off when the repository was fetched.
            UsageError: As `files`.
        """
        return _files(argument, languages, intake, dated=True)


def _files(argument: str, languages: tuple[str, ...], intake: Intake, *, dated: bool) -> Iterator[SourceFile]:
    request = _parse(argument)
    if request.path.name != "*":
        yield from _repository(argument, request, languages, intake, dated=dated)
        return
    found = [path for path in sorted(request.path.parent.glob("*")) if is_repository(path)]
    if not found:
        raise InputError(
            f"corpus 'git:{argument}': no folder of {str(request.path.parent)!r} is a repository"
        )
    for path in found:
        one = dataclasses.replace(request, path=path)
        for file in _repository(argument, one, languages, intake, dated=dated):
            yield dataclasses.replace(
                file, path=f"{path.name}/{file.path}", cluster=f"{path.name}/{file.cluster}"
            )


def _repository(
    argument: str, request: _Request, languages: tuple[str, ...], intake: Intake, *, dated: bool
) -> Iterator[SourceFile]:
    if not request.path.is_dir():
        raise InputError(f"corpus 'git:{argument}': no folder {str(request.path)!r}")
    with open_repository(request.path) as repository:
        yield from _revision(repository, request, languages, intake, dated=dated)


def _revision(
    repository: GitRepository, request: _Request, languages: tuple[str, ...], intake: Intake, *, dated: bool
) -> Iterator[SourceFile]:
    commit = repository.git("rev-parse", "--verify", "--end-of-options", f"{request.revision}^{{commit}}")
    revision = commit.decode().strip()
    table = suffix_table(languages)
    listed = _tree(repository, revision, intake)
    if request.since is not None or request.until is not None:
        changed = last_changes(repository, revision)
        listed = {path: blob for path, blob in listed.items() if request.takes(changed, path)}
    note_unread(listed, languages, intake)
    projects = projects_of(listed)
    wanted = {
        path: blob
        for path, blob in sorted(listed.items())
        if language_of(path, table) and not _is_built(path, projects, intake)
    }
    packages = Packages.of(wanted)
    name = request.path.resolve().name.removesuffix(".git")
    days = line_days(repository, revision, wanted) if dated else iter(() for _ in wanted)
    for (path, raw), lines in zip(_contents(repository, wanted), days, strict=True):
        if raw is None or lines is None:
            intake.note(_MISSING if raw is None else "its history is missing", path)
            continue
        language = language_of(path, table)
        text = decode(raw, path, intake)
        if text is not None and language is not None and is_written(path, text, intake):
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=packages.package(path),
                repository=name,
                version=revision,
                dates=in_characters(lines, text),
            )


def _is_built(path: str, projects: Set[str], intake: Intake) -> bool:
    """Return whether a file lies in a project's folder of builds, and count it."""
    if intake.keep_all:
        return False
    folders = PurePosixPath(path).parents
    found = any(folder.name in BUILT and str(folder.parent) in projects for folder in folders)
    if found:
        intake.note(GENERATED_PATH, path)
    return found


def _tree(repository: GitRepository, revision: str, intake: Intake) -> dict[str, _Blob]:
    """Path to blob of the revision's regular files that are small enough to be code."""
    found: dict[str, _Blob] = {}
    for mode, blob, size, raw_path in _rows(repository, revision, intake):
        path = os.fsdecode(raw_path)
        if not is_unicode(path):
            intake.note("name is not Unicode", ascii(path))
        elif mode not in _REGULAR:
            intake.note("submodule" if mode == "160000" else "symbolic link", path)
        elif not size.isdigit():
            intake.note(_MISSING, path)
        elif int(size) > MAX_BYTES:
            intake.note("too large", path)
        else:
            found[path] = _Blob(blob, int(size))
    return found


def _rows(repository: GitRepository, revision: str, intake: Intake) -> Iterator[tuple[str, str, str, bytes]]:
    """Mode, object, size and path of all files; where folders are missing, of those in the others."""
    try:
        yield from _listed(repository, "-r", "--full-tree", revision)
        return
    except InputError:
        # Git ends at the first folder that it lacks: so they are gone through one by one.
        pending = [(b"", f"{revision}^{{tree}}")]
    while pending:
        folder, tree = pending.pop()
        try:
            level = _listed(repository, tree)
        except InputError:
            intake.note(_MISSING, ascii(os.fsdecode(folder))[1:-1] or revision)
            continue
        for mode, blob, size, name in level:
            if mode == "040000":
                pending.append((folder + name + b"/", blob))
            else:
                yield mode, blob, size, folder + name


def _listed(repository: GitRepository, *which: str) -> list[tuple[str, str, str, bytes]]:
    rows = (row.partition(b"\t") for row in repository.git("ls-tree", "-z", "-l", *which).split(b"\0") if row)
    heads = ((head.decode().split(), name) for head, _, name in rows)
    return [(mode, blob, size, name) for (mode, _, blob, size), name in heads]


def _contents(repository: GitRepository, blobs: Mapping[str, _Blob]) -> Iterator[tuple[str, bytes | None]]:
    """Path and bytes of the blobs, some megabytes at a time; None of what is missing or damaged."""
    some: list[str] = []
    for path in blobs:
        some.append(path)
        if sum(blobs[one].size for one in some) > _MOST_AT_ONCE or len(some) == _MOST_NUMBER:
            yield from _read_blobs(repository, some, blobs)
            some = []
    yield from _read_blobs(repository, some, blobs)


def _read_blobs(
    repository: GitRepository, paths: Sequence[str], blobs: Mapping[str, _Blob]
) -> Iterator[tuple[str, bytes | None]]:
    names = [blobs[path].name for path in paths]
    with suppress(InputError):
        answer = io.BytesIO(repository.git("cat-file", "--batch", given="".join(f"{one}\n" for one in names)))
        heads = (answer.readline().split() for _ in names)
        contents = [answer.read(int(head[2]) + 1)[:-1] if len(head) == 3 else None for head in heads]
        if [None if one is None else len(one) for one in contents] == [blobs[one].size for one in paths]:
            yield from zip(paths, contents, strict=True)
            return
    # Where one is damaged, the answer about all of them is.
    for path in paths:
        try:
            raw = repository.git("cat-file", "blob", blobs[path].name)
        except InputError:
            raw = b""
        yield path, raw if len(raw) == blobs[path].size else None


source = Git()
