"""A revision of a git repository, read without a checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UsageError
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._decode import MAX_BYTES, decode, is_unicode
from sonde.corpora._layout import Packages
from sonde.corpora._walk import language_of, suffix_table

# A repository's own configuration may name programs (hooks, monitors, signature checks) and remotes to
# fetch missing objects from. None of them may run because somebody reads code.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "log.showSignature=false")
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class _Request:
    """``PATH[@REV][?since=DATE]``, parsed."""

    path: Path
    revision: str
    since: datetime | None


def _parse(argument: str) -> _Request:
    location, _, query = argument.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    since = options.pop("since", None)
    if options:
        raise UsageError(f"corpus 'git:{argument}': unknown option {min(options)!r}; known: since")
    path, _, revision = location.rpartition("@")
    if not path or Path(location).expanduser().is_dir():
        path, revision = location, "HEAD"
    if not path or revision.startswith("-"):
        raise UsageError(f"corpus 'git:{argument}': name it as git:PATH[@REV][?since=DATE]")
    try:
        date = datetime.fromisoformat(since) if since is not None else None
    except ValueError:
        raise UsageError(
            f"corpus 'git:{argument}': since={since!r} is no date; write it as 2024-12-31"
        ) from None
    if date is not None and date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return _Request(Path(path).expanduser(), revision, date)


class Git:
    """`git:PATH[@REV][?since=DATE]`: repository is the folder's name, clusters are its packages.

    ``since`` keeps the files that a commit on or after the date (UTC where no zone is given) touched:
    code that a model trained before that date cannot have read in this form. Submodules and symbolic
    links are skipped.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the files of the revision, sorted by path.

        Raises:
            InputError: There is no git, no repository at PATH, or no such revision.
            UsageError: An unknown option, or a date that is none.
        """
        request = _parse(argument)
        if not request.path.is_dir():
            raise InputError(f"corpus 'git:{argument}': no folder {str(request.path)!r}")
        commit = _git(
            request.path, "rev-parse", "--verify", "--end-of-options", f"{request.revision}^{{commit}}"
        )
        revision = commit.decode().strip()
        table = suffix_table(languages)
        listed = _tree(request.path, revision, intake)
        if request.since is not None:
            recent = _touched(request.path, revision, request.since)
            listed = {path: blob for path, blob in listed.items() if path in recent}
        wanted = {path: blob for path, blob in sorted(listed.items()) if language_of(path, table)}
        packages = Packages.of(wanted)
        name = request.path.resolve().name.removesuffix(".git")
        for path, raw in _contents(request.path, wanted):
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
                )


def _command(repository: Path, *arguments: str) -> list[str]:
    return ["git", "-C", str(repository), *_QUIET, *arguments]


def _git(repository: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            _command(repository, *arguments),
            capture_output=True,
            env=os.environ | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            check=True,
        )
    except FileNotFoundError:
        raise InputError("corpus 'git': the program git is not installed (apt-get install git)") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"])[0]
        raise InputError(f"corpus 'git:{repository}': {reason.removeprefix('fatal: ')}") from None
    return done.stdout


def _tree(repository: Path, revision: str, intake: Intake) -> dict[str, str]:
    """Path to blob of the revision's regular files that are small enough to be code."""
    found: dict[str, str] = {}
    for row in _git(repository, "ls-tree", "-r", "-z", "-l", "--full-tree", revision).split(b"\0"):
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


def _touched(repository: Path, revision: str, since: datetime) -> set[str]:
    """Paths that a commit on or after a date changed.

    The whole history is read, since commit dates need not fall along it.
    """
    log = _git(
        repository, "log", "-z", "-m", "--format=%x01%ct", "--name-only", "--no-renames", revision, "--"
    )
    paths: set[str] = set()
    recent = after_stamp = False
    for field in log.split(b"\0"):
        # Fields are a commit's stamp, then its paths, of which the first follows a newline.
        if field.startswith(b"\x01") and field[1:].isdigit():
            recent, after_stamp = int(field[1:]) >= since.timestamp(), True
            continue
        path = field.removeprefix(b"\n") if after_stamp else field
        after_stamp = False
        if recent and path:
            paths.add(os.fsdecode(path))
    return paths


def _contents(repository: Path, blobs: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the blobs, through one git process."""
    with subprocess.Popen(
        _command(repository, "cat-file", "--batch"),
        env=os.environ | _ENVIRONMENT,
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
