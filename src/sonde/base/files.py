"""Writing files so that a reader sees the old content or the new, never half of either."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from sonde.base.errors import StoreError, UsageError


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
        raise StoreError(
            f"cannot write {path}: {reason}; finished results are kept, free space and run again"
        ) from error


FileStamp = tuple[str, int, int, int, int]
"""Path, inode, size, time of modification and of change (nanoseconds)."""


def file_stamps(files: Iterable[Path]) -> tuple[FileStamp, ...]:
    """Describe files by what changes when one of them is written again; nothing of them is read."""
    status = ((path, path.stat()) for path in files)
    return tuple(
        (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in status
    )


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
