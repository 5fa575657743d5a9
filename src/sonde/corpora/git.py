"""A revision of a git repository, read without a checkout."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UsageError
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._decode import MAX_BYTES, decode, is_unicode
from sonde.corpora._git_command import ENVIRONMENT, command, git
from sonde.corpora._git_dates import in_characters, last_changes, line_days
from sonde.corpora._layout import Packages
from sonde.corpora._walk import language_of, suffix_table

_REGULAR = ("100644", "100755")


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
    if not path or Path(location).expanduser().is_dir():
        path, revision = location, "HEAD"
    if not path or revision.startswith("-"):
        raise UsageError(f"corpus 'git:{argument}': name it as git:PATH[@REV][?since=DATE&until=DATE]")
    return _Request(Path(path).expanduser(), revision, since, until)


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
    before that date cannot have read in this form; ``until`` those that none touched after it. Submodules and
    symbolic links are skipped.
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
    found = [path for path in sorted(request.path.parent.glob("*")) if _is_repository(path)]
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


def _is_repository(path: Path) -> bool:
    """Whether a folder is a repository itself: with a checkout, or bare."""
    return (path / ".git").exists() or ((path / "objects").is_dir() and (path / "HEAD").is_file())


def _repository(
    argument: str, request: _Request, languages: tuple[str, ...], intake: Intake, *, dated: bool
) -> Iterator[SourceFile]:
    if not request.path.is_dir():
        raise InputError(f"corpus 'git:{argument}': no folder {str(request.path)!r}")
    commit = git(request.path, "rev-parse", "--verify", "--end-of-options", f"{request.revision}^{{commit}}")
    revision = commit.decode().strip()
    table = suffix_table(languages)
    listed = _tree(request.path, revision, intake)
    if request.since is not None or request.until is not None:
        changed = last_changes(request.path, revision)
        listed = {path: blob for path, blob in listed.items() if request.takes(changed, path)}
    wanted = {path: blob for path, blob in sorted(listed.items()) if language_of(path, table)}
    packages = Packages.of(wanted)
    name = request.path.resolve().name.removesuffix(".git")
    days = line_days(request.path, revision, wanted) if dated else iter(() for _ in wanted)
    for (path, raw), lines in zip(_contents(request.path, wanted), days, strict=True):
        language = language_of(path, table)
        text = decode(raw, path, intake)
        if text is not None and language is not None:
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=packages.package(path),
                repository=name,
                version=revision,
                dates=in_characters(lines, text),
            )


def _tree(repository: Path, revision: str, intake: Intake) -> dict[str, str]:
    """Path to blob of the revision's regular files that are small enough to be code."""
    found: dict[str, str] = {}
    for row in git(repository, "ls-tree", "-r", "-z", "-l", "--full-tree", revision).split(b"\0"):
        if not row:
            continue
        head, _, raw_path = row.partition(b"\t")
        mode, _, blob, size = head.decode().split()
        path = os.fsdecode(raw_path)
        if not is_unicode(path):
            intake.note("name is not Unicode", ascii(path))
        elif mode not in _REGULAR:
            intake.note("submodule" if mode == "160000" else "symbolic link", path)
        elif int(size) > MAX_BYTES:
            intake.note("too large", path)
        else:
            found[path] = blob
    return found


def _contents(repository: Path, blobs: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the blobs, through one git process."""
    with subprocess.Popen(
        command(repository, "cat-file", "--batch"),
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for path, blob in blobs.items():
            process.stdin.write(f"{blob}\n".encode())
            process.stdin.flush()
            head = process.stdout.readline().split()
            if len(head) != 3:
                raise InputError(
                    f"corpus 'git:{repository}': object {blob} of {path} is missing; fetch it first"
                )
            raw = process.stdout.read(int(head[2]))
            process.stdout.read(1)
            yield path, raw


source = Git()
