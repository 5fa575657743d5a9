"""When the lines of a git repository were last changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from sonde.base.errors import InputError
from sonde.corpora._dates import day_of
from sonde.corpora._git_command import GitRepository
from sonde.executors import cores

_ENTRY = re.compile(rb"([0-9a-f]{40,64}) \d+ (\d+) (\d+)")
_TIME = b"committer-time "
# Blanks alone are no change, and lines that were only moved keep the time of their writing.
_BLAME = ("blame", "--incremental", "--no-textconv", "-w", "-M", "-C")


def last_changes(repository: GitRepository, revision: str) -> dict[str, int]:
    """When a commit last changed each path, in seconds since 1970, by the times of the committers.

    The whole history is read, since commit dates need not fall along it.
    """
    log = repository.git("log", "-z", "-m", "--format=%x01%ct", "--name-only", "--no-renames", revision, "--")
    changed: dict[str, int] = {}
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
            changed[path] = max(time, changed.get(path, time))
    return changed


def line_days(
    repository: GitRepository, revision: str, paths: Iterable[str]
) -> Iterator[tuple[tuple[int, str], ...] | None]:
    """For each file the stretches of its lines by the day of the commit that last changed them.

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
            f"corpus 'git:{repository.path}': its history was cut off when it was fetched, so when lines "
            "were written is not known; run git fetch --unshallow in it"
        )

    def days(path: str) -> tuple[tuple[int, str], ...] | None:
        try:
            return _stretches(repository.git(*_BLAME, revision, "--", path))
        except InputError:
            return None

    with ThreadPoolExecutor(cores()) as several:
        yield from several.map(days, paths)


def in_characters(days: Iterable[tuple[int, str]], text: str) -> tuple[tuple[int, str], ...]:
    r"""Stretches of lines as stretches of the characters of their text.

    >>> in_characters([(0, "2020-01-01"), (2, "2024-01-01")], "a\nb\nc\n")
    ((0, '2020-01-01'), (4, '2024-01-01'))
    """
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    # A decoder may make fewer lines of the bytes than git does.
    return tuple((begins[min(line, len(begins) - 1)], day) for line, day in days)


def _stretches(blamed: bytes) -> tuple[tuple[int, str], ...]:
    """What ``git blame --incremental`` says, by line; a commit has its time where it is first named."""
    times: dict[bytes, int] = {}
    found: list[tuple[int, bytes]] = []
    for line in blamed.split(b"\n"):
        if entry := _ENTRY.fullmatch(line):
            found.append((int(entry[2]) - 1, entry[1]))
        elif line.startswith(_TIME) and found:
            times[found[-1][1]] = int(line.removeprefix(_TIME))
    days = [(line, day_of(times[commit])) for line, commit in sorted(found)]
    return tuple(one for before, one in zip([(-1, ""), *days], days, strict=False) if one[1] != before[1])
