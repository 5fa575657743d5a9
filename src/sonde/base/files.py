"""Writing files so that a reader sees the old content or the new, never half of either."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from sonde.base.errors import StoreError, UsageError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

_CLOCKS_DIFFER_SECONDS = 3600.0
"""The clock of a file server may be ahead of this machine's."""


def cache_folder(name: str) -> Path:
    """Where what can be made or fetched again is kept; see `cache_root`."""
    return cache_root() / name


def cache_root() -> Path:
    """``$SONDE_CACHE``, else the folder ``sonde`` where the platform keeps what can be made again.

    Raises:
        UsageError: It would lie in the home folder of the user, and there is none.
    """
    if own := os.environ.get("SONDE_CACHE"):
        return expand_home(own)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "sonde"
    if sys.platform == "darwin":
        return home_folder() / "Library" / "Caches" / "sonde"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home_folder()) / "sonde" / "cache"
    return home_folder() / ".cache" / "sonde"


def home_folder() -> Path:
    """Return the home folder of the user.

    Raises:
        UsageError: There is none: ``HOME`` is not set, and the system does not know the user.
    """
    try:
        return Path.home()
    except RuntimeError:
        raise UsageError(
            "this user has no home folder, where libraries keep their files; set HOME to a folder"
        ) from None


def expand_home(path: str | Path) -> Path:
    """Replace a leading ``~`` or ``~user`` by a home folder; a path whose home nobody knows stays as it is.

    >>> expand_home("~nobody-of-this-name/code").name
    'code'
    """
    path = Path(path)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def check_name(folder: Path) -> None:
    """Refuse a folder whose name libraries that read tables cannot take.

    Raises:
        UsageError: Its name is not Unicode, or the locale does not allow it to be.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"folder {str(folder)!a}: its name is not Unicode in this locale; rename it, or set "
            "LC_ALL=C.UTF-8"
        ) from None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file through a temporary neighbour, flushed to disk, then renamed over the target.

    Args:
        path: Where the content goes; parent folders are made.
        data: The whole content; text is written as UTF-8 with lone surrogates escaped.

    Raises:
        StoreError: The disk is full or the folder cannot be written; nothing at ``path`` has changed.
    """
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as handle:
            handle.write(raw)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        remedy = "free space" if error.errno in _NO_SPACE else "name a place that can be written"
        raise StoreError(
            f"cannot write {path}: {reason}; finished results are kept, {remedy} and run again"
        ) from error


FileStamp = tuple[str, int, int, int, int]
"""Path, inode, size, time of modification and of change (nanoseconds)."""


def file_stamps(files: Iterable[Path]) -> tuple[FileStamp, ...]:
    """Describe files by what changes when one of them is written again; nothing of them is read."""
    status = ((path, path.stat()) for path in files)
    return tuple(
        (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in status
    )


def last_use(status: os.stat_result) -> float:
    """Return when a file of a cache was used, by its time of modification, in seconds.

    A time that has not come yet says nothing: the clock was set back since. Such a file counts as used before
    all others, or it would stay in the cache for good and push out what is in use.
    """
    return status.st_mtime if status.st_mtime <= time.time() + _CLOCKS_DIFFER_SECONDS else 0.0


def linked(source: Path, target: Path) -> bool:
    """Give a file a second name, in place of whatever had it; False where the file systems do not."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        os.link(source, temporary)
        temporary.replace(target)
        # Two names of one file are not renamed over each other.
        temporary.unlink(missing_ok=True)
    except OSError:
        return False
    return True
