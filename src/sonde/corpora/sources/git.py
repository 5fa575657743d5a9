"""A revision of a git repository, read without a checkout.

``git:PATH[@REV][?since=DATE&until=DATE]`` names a repository, and optionally a revision and a period.

The settings of a repository are not carried out. Its configuration may name programs (hooks, monitors,
filters, signature checks, remotes to fetch missing objects from) and files to read (``include.path``,
``blame.ignoreRevsFile``). Git has no switch that ignores them all, so it never reads them. It runs in a
folder of sonde's, whose configuration only says how the repository is stored, on the objects and names of the
repository. Other settings that git obeys (grafts, replaced objects, attributes) are left out as well.

The days on which lines were last changed are read from the history.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import Packages, SkipCounter, SourceFile, find_projects, format_day
from sonde.corpora.engine.source_files import (
    BUILD_FOLDERS,
    GENERATED_PATH,
    MAX_BYTES,
    count_unread_files,
    decode,
    find_language,
    is_handwritten,
    is_unicode,
    suffix_table,
)
from sonde.corpora.engine.tables import split_query
from sonde.executors import count_cores

SYNONYMS = ("github", "commit")

_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


_EXTENSIONS = {"objectformat": ("sha1", "sha256"), "refstorage": ("files", "reftable")}
"""How a repository is stored; all that is taken over from its configuration."""


_LINK = re.compile(r"(gitdir|ref): (.+?)\s*")


_LONGEST_LINK = 4_096


_MAX_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class GitRepository:
    """The objects and refs of a repository.

    Attributes:
        path: The folder as named.
        environment: That of a git which reads them and nothing else.
    """

    path: Path
    environment: Mapping[str, str]

    def git(self, *arguments: str, stdin: str = "") -> bytes:
        """Run git and return its output; ``stdin`` is its standard input.

        Raises:
            InputError: It refuses, in its own words, or does not end.
        """
        try:
            done = subprocess.run(
                ["git", *arguments],
                capture_output=True,
                env=self.environment,
                input=stdin.encode(),
                timeout=_MAX_SECONDS,
                check=True,
            )
        except FileNotFoundError:
            raise InputError("corpus 'git': the program git is not installed (apt-get install git)") from None
        except subprocess.TimeoutExpired:
            raise InputError(
                f"corpus 'git:{self.path}': git {arguments[0]} has not ended after "
                f"{_MAX_SECONDS // 60} minutes"
            ) from None
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"])[0]
            raise InputError(f"corpus 'git:{self.path}': {reason.removeprefix('fatal: ')}") from None
        return done.stdout


@contextmanager
def open_repository(path: Path) -> Generator[GitRepository]:
    """Open the repository of a folder: a checkout, a bare repository, or a folder inside one.

    Raises:
        InputError: There is no git or no repository, or it is stored in a way that is not known.
    """
    git_folder = _own_folder(path)
    common_path = _link(git_folder / "commondir", "")
    common = git_folder / common_path if common_path else git_folder
    # What a caller has set for a git of its own, such as GIT_DIR in a hook, is of another repository.
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**outer, **_ENVIRONMENT}
    with tempfile.TemporaryDirectory(prefix="sonde-git-") as folder:
        view = Path(folder)
        repository = GitRepository(path, environment)
        (view / "config").write_text(_configuration(repository, common / "config"), "utf-8")
        (view / "HEAD").write_text(_head(path, git_folder), "utf-8")
        (view / "objects").mkdir()
        for name in ("refs", "logs", "reftable"):
            if os.path.isdir(common / name):  # noqa: PTH112  False where the folder cannot be looked at
                (view / name).symlink_to((common / name).resolve())
        for name in ("packed-refs", "shallow"):
            if os.path.isfile(common / name):  # noqa: PTH113
                (view / name).symlink_to((common / name).resolve())
        (view / "refs").mkdir(exist_ok=True)
        environment["GIT_DIR"] = str(view)
        environment["GIT_OBJECT_DIRECTORY"] = str((common / "objects").resolve())
        yield repository


def is_repository(path: Path) -> bool:
    """Return whether a folder is itself a repository, with a checkout or bare."""
    return os.path.lexists(path / ".git") or _is_bare_repository(path)


def _is_bare_repository(path: Path) -> bool:
    # `os.path` says False of what cannot be looked at, where `Path` raises.
    return os.path.isdir(path / "objects") and os.path.lexists(path / "HEAD")  # noqa: PTH112


def _own_folder(path: Path) -> Path:
    """Return the git folder of a folder's repository; for a linked worktree its own part.

    Raises:
        InputError: Neither the folder nor one above it is a repository.
    """
    start = path.resolve()
    for folder in (start, *start.parents):
        git_path = folder / ".git"
        if _is_bare_repository(git_path):
            return git_path
        if target := _link(git_path, "gitdir"):
            return folder / target
        if _is_bare_repository(folder):
            return folder
    raise InputError(f"corpus 'git:{path}': not a git repository (or any of the folders above)")


def _link(path: Path, kind: str) -> str:
    """Read the target of a link file of git; empty if there is no such file or it is of another kind."""
    if not os.path.isfile(path):  # noqa: PTH113  nothing that blocks is opened
        return ""
    try:
        with path.open("rb") as handle:
            text = os.fsdecode(handle.read(_LONGEST_LINK))
    except OSError:
        return ""
    if not kind:
        return text.strip()
    match = _LINK.fullmatch(text)
    return match[2] if match and match[1] == kind else ""


def _head(path: Path, git_folder: Path) -> str:
    """Read the checked-out branch or commit.

    Raises:
        InputError: There is none.
    """
    head = git_folder / "HEAD"
    # Versions before 1.6 linked to the branch.
    if os.path.islink(head):  # noqa: PTH114
        return f"ref: {head.readlink()}\n"
    text = _link(head, "")
    if not re.fullmatch(r"ref: refs/.+|[0-9a-f]{40,64}", text):
        raise InputError(f"corpus 'git:{path}': not a git repository: its HEAD names no branch and no commit")
    return f"{text}\n"


def _configuration(repository: GitRepository, config_file: Path) -> str:
    """Build a configuration that says only how the repository is stored.

    Raises:
        InputError: It is stored in a way that is not known, or its configuration is none.
    """
    lines = ["[core]", "repositoryformatversion = 1", "bare = true", "[extensions]"]
    if os.path.isfile(config_file):  # noqa: PTH113
        # One file as it lies: what it includes is not read.
        listing = repository.git("config", "--file", str(config_file), "--no-includes", "-z", "--list")
        for setting in os.fsdecode(listing).split("\0"):
            key, _, value = setting.partition("\n")
            name = key.removeprefix("extensions.")
            if name != key and name in _EXTENSIONS:
                if value not in _EXTENSIONS[name]:
                    values = " and ".join(_EXTENSIONS[name])
                    raise InputError(
                        f"corpus 'git:{repository.path}': {key} is {value!r}; {values} can be read"
                    )
                lines.append(f"{name} = {value}")
    return "\n".join([*lines, ""])


_ENTRY = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+) (\d+)")


_TIME = b"committer-time "


# Blanks alone are no change, and lines that were only moved keep the time of their writing.
_BLAME = ("blame", "--incremental", "--no-textconv", "-w", "-M", "-C")


def last_changes(repository: GitRepository, revision: str) -> dict[str, int]:
    """Return when each path was last changed: committer time in seconds since 1970.

    The whole history is read, since commit dates need not fall along it.
    """
    log = repository.git("log", "-z", "-m", "--format=%x01%ct", "--name-only", "--no-renames", revision, "--")
    change_times: dict[str, int] = {}
    time, after_stamp = 0, False
    for field in log.split(b"\0"):
        # Fields are a commit's stamp, then its paths, of which the first follows a newline.
        if field.startswith(b"\x01") and field[1:].isdigit():
            time, after_stamp = int(field[1:]), True
            continue
        raw = field.removeprefix(b"\n") if after_stamp else field
        after_stamp = False
        if raw:
            path = os.fsdecode(raw)
            change_times[path] = max(time, change_times.get(path, time))
    return change_times


def line_days(
    repository: GitRepository, revision: str, paths: Iterable[str]
) -> Iterator[tuple[tuple[int, str], ...] | None]:
    """Yield, for each file, the ranges of lines with the day of the commit that last changed them.

    Args:
        repository: The repository.
        revision: The commit.
        paths: Paths in the repository, from its root.

    Yields:
        The first line of each stretch, from 0, and its day, in order; None where the repository lacks what
        the file was before.

    Raises:
        InputError: The history was cut off when the repository was fetched, so that times are not known.
    """
    if repository.git("rev-parse", "--is-shallow-repository").strip() == b"true":
        raise InputError(
            f"corpus 'git:{repository.path}': its history was cut off when it was fetched, so "
            "the dates of its lines are unknown; run git fetch --unshallow in it"
        )

    def days(path: str) -> tuple[tuple[int, str], ...] | None:
        try:
            return _stretches(repository.git(*_BLAME, revision, "--", path))
        except InputError:
            return None

    with ThreadPoolExecutor(count_cores()) as executor:
        yield from executor.map(days, paths)


def in_characters(days: Iterable[tuple[int, str]], text: str) -> tuple[tuple[int, str], ...]:
    r"""Convert ranges of lines to ranges of characters of a text.

    >>> in_characters([(0, "2020-01-01"), (2, "2024-01-01")], "a\nb\nc\n")
    ((0, '2020-01-01'), (4, '2024-01-01'))
    """
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    # A decoder may make fewer lines of the bytes than git does.
    return tuple((begins[min(line, len(begins) - 1)], day) for line, day in days)


def _stretches(blame_output: bytes) -> tuple[tuple[int, str], ...]:
    """Parse ``git blame --incremental`` by line; a commit has its time only where it is first named."""
    times: dict[bytes, int] = {}
    entries: list[tuple[int, bytes]] = []
    for line in blame_output.split(b"\n"):
        if entry := _ENTRY.fullmatch(line):
            entries.append((int(entry[2]) - 1, entry[1]))
        elif line.startswith(_TIME) and entries:
            times[entries[-1][1]] = int(line.removeprefix(_TIME))
    days = [(line, format_day(times[commit])) for line, commit in sorted(entries)]
    return tuple(
        current
        for previous, current in zip([(-1, ""), *days], days, strict=False)
        if current[1] != previous[1]
    )


_REGULAR = ("100644", "100755")


_MISSING = "missing in the repository"


_MOST_AT_ONCE, _MOST_NUMBER = 20_000_000, 1_000
"""Bytes and number of the files that one call of git is asked for."""


class _Blob(NamedTuple):
    """A file's hash and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class _Request:
    """``PATH[@REV][?since=DATE&until=DATE]``, parsed; dates are a first moment and one past the last."""

    path: Path
    revision: str
    first_moment: datetime | None
    end_moment: datetime | None

    def accepts_change(self, change_times: Mapping[str, int], path: str) -> bool:
        """Return whether a file was last changed in the requested period."""
        time = change_times.get(path, 0)
        return (self.first_moment is None or time >= self.first_moment.timestamp()) and (
            self.end_moment is None or time < self.end_moment.timestamp()
        )


def _parse(argument: str) -> _Request:
    location, options = split_query(f"git:{argument}", argument, ("since", "until"))
    first_moment, end_moment = (_date(argument, name, options.get(name)) for name in ("since", "until"))
    path, _, revision = location.rpartition("@")
    if not path or expand_home(location).is_dir():
        path, revision = location, "HEAD"
    if not path or revision.startswith("-"):
        raise UsageError(f"corpus 'git:{argument}': name it as git:PATH[@REV][?since=DATE&until=DATE]")
    return _Request(expand_home(path), revision, first_moment, end_moment)


def _date(argument: str, name: str, text: str | None) -> datetime | None:
    """Parse a moment of the query; ``until`` a day includes all of that day."""
    if text is None:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"corpus 'git:{argument}': {name}={text!r} is not a date; write it as 2024-12-31"
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

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the files of the revision, sorted by path.

        Raises:
            InputError: There is no git, no repository at PATH, or no such revision.
            UsageError: An unknown option, or a date that is none.
        """
        return _files(argument, languages, intake, with_dates=False)

    def dated_files(
        self, argument: str, languages: tuple[str, ...], intake: SkipCounter
    ) -> Iterator[SourceFile]:
        """Yield the same files, with the days on which commits last changed their lines (``git blame``).

        A file's own day would make all its functions as new as the last of them.

        Raises:
            InputError: As `files`, or the history was cut off when the repository was fetched.
            UsageError: As `files`.
        """
        return _files(argument, languages, intake, with_dates=True)


def _files(
    argument: str, languages: tuple[str, ...], intake: SkipCounter, *, with_dates: bool
) -> Iterator[SourceFile]:
    request = _parse(argument)
    if request.path.name != "*":
        yield from _repository(argument, request, languages, intake, with_dates=with_dates)
        return
    paths = [path for path in sorted(request.path.parent.glob("*")) if is_repository(path)]
    if not paths:
        raise InputError(
            f"corpus 'git:{argument}': no folder of {str(request.path.parent)!r} is a repository"
        )
    for path in paths:
        path_request = dataclasses.replace(request, path=path)
        for file in _repository(argument, path_request, languages, intake, with_dates=with_dates):
            yield dataclasses.replace(
                file, path=f"{path.name}/{file.path}", cluster=f"{path.name}/{file.cluster}"
            )


def _repository(
    argument: str, request: _Request, languages: tuple[str, ...], intake: SkipCounter, *, with_dates: bool
) -> Iterator[SourceFile]:
    if not request.path.is_dir():
        raise InputError(f"corpus 'git:{argument}': no folder {str(request.path)!r}")
    with open_repository(request.path) as repository:
        yield from _revision(repository, request, languages, intake, with_dates=with_dates)


def _revision(
    repository: GitRepository,
    request: _Request,
    languages: tuple[str, ...],
    intake: SkipCounter,
    *,
    with_dates: bool,
) -> Iterator[SourceFile]:
    commit = repository.git("rev-parse", "--verify", "--end-of-options", f"{request.revision}^{{commit}}")
    revision = commit.decode().strip()
    table = suffix_table(languages)
    blobs = _tree(repository, revision, intake)
    if request.first_moment is not None or request.end_moment is not None:
        change_times = last_changes(repository, revision)
        blobs = {path: blob for path, blob in blobs.items() if request.accepts_change(change_times, path)}
    count_unread_files(blobs, languages, intake)
    projects = find_projects(blobs)
    code_blobs = {
        path: blob
        for path, blob in sorted(blobs.items())
        if find_language(path, table) and not _is_build_output(path, projects, intake)
    }
    packages = Packages.from_paths(code_blobs)
    name = request.path.resolve().name.removesuffix(".git")
    days = line_days(repository, revision, code_blobs) if with_dates else iter(() for _ in code_blobs)
    for (path, raw), lines in zip(_contents(repository, code_blobs), days, strict=True):
        if raw is None or lines is None:
            intake.note(_MISSING if raw is None else "its history is missing", path)
            continue
        language = find_language(path, table)
        text = decode(raw, path, intake)
        if text is not None and language is not None and is_handwritten(path, text, intake):
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=packages.package(path),
                repository=name,
                version=revision,
                dates=in_characters(lines, text),
            )


def _is_build_output(path: str, projects: Set[str], intake: SkipCounter) -> bool:
    """Return whether a file lies in a project's folder of builds, and count it."""
    if intake.keep_all:
        return False
    folders = PurePosixPath(path).parents
    is_build_output = any(
        folder.name in BUILD_FOLDERS and str(folder.parent) in projects for folder in folders
    )
    if is_build_output:
        intake.note(GENERATED_PATH, path)
    return is_build_output


def _tree(repository: GitRepository, revision: str, intake: SkipCounter) -> dict[str, _Blob]:
    """Return the blobs, by path, of the revision's regular files that are small enough to be code."""
    blobs: dict[str, _Blob] = {}
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
            blobs[path] = _Blob(blob, int(size))
    return blobs


def _rows(
    repository: GitRepository, revision: str, intake: SkipCounter
) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield mode, object, size and path of all files outside missing folders."""
    try:
        yield from _list_files(repository, "-r", "--full-tree", revision)
        return
    except InputError:
        # Git ends at the first folder that it lacks: so they are gone through one by one.
        queue = [(b"", f"{revision}^{{tree}}")]
    while queue:
        folder, tree = queue.pop()
        try:
            level = _list_files(repository, tree)
        except InputError:
            intake.note(_MISSING, ascii(os.fsdecode(folder))[1:-1] or revision)
            continue
        for mode, blob, size, name in level:
            if mode == "040000":
                queue.append((folder + name + b"/", blob))
            else:
                yield mode, blob, size, folder + name


def _list_files(repository: GitRepository, *arguments: str) -> list[tuple[str, str, str, bytes]]:
    rows = (
        row.partition(b"\t") for row in repository.git("ls-tree", "-z", "-l", *arguments).split(b"\0") if row
    )
    heads = ((head.decode().split(), name) for head, _, name in rows)
    return [(mode, blob, size, name) for (mode, _, blob, size), name in heads]


def _contents(repository: GitRepository, blobs: Mapping[str, _Blob]) -> Iterator[tuple[str, bytes | None]]:
    """Yield path and bytes of the blobs, some megabytes at a time; None if missing or damaged."""
    batch: list[str] = []
    for path in blobs:
        batch.append(path)
        if sum(blobs[batch_path].size for batch_path in batch) > _MOST_AT_ONCE or len(batch) == _MOST_NUMBER:
            yield from _read_blobs(repository, batch, blobs)
            batch = []
    yield from _read_blobs(repository, batch, blobs)


def _read_blobs(
    repository: GitRepository, paths: Sequence[str], blobs: Mapping[str, _Blob]
) -> Iterator[tuple[str, bytes | None]]:
    names = [blobs[path].name for path in paths]
    with suppress(InputError):
        answer = io.BytesIO(
            repository.git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names))
        )
        heads = (answer.readline().split() for _ in names)
        contents = [answer.read(int(head[2]) + 1)[:-1] if len(head) == 3 else None for head in heads]
        if [None if content is None else len(content) for content in contents] == [
            blobs[path].size for path in paths
        ]:
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
