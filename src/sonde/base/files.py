"""Atomic file writing, cache and home folders, and TOML files by users with limits on size and depth.

Experiments, recipes and requirements are TOML files. `report_full_disk` turns the many errors of a full disk
into one line.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.process import read_clock

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


_CLOCK_TOLERANCE_SECONDS = 3600.0
"""Tolerance for the clock of a file server that is ahead of this machine's."""


def get_cache_folder(name: str) -> Path:
    """Return the folder `name` in the cache, see `get_cache_root`."""
    return get_cache_root() / name


def get_cache_root() -> Path:
    """Return ``$SONDE_CACHE``, else the folder ``sonde`` in the platform's cache folder.

    Raises:
        UsageError: It would be in the home folder of the user, and there is none.
    """
    if sonde_cache := os.environ.get("SONDE_CACHE"):
        return expand_home(sonde_cache)
    if xdg_cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg_cache) / "sonde"
    if sys.platform == "darwin":
        return get_home_folder() / "Library" / "Caches" / "sonde"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or get_home_folder()) / "sonde" / "cache"
    return get_home_folder() / ".cache" / "sonde"


def measure_folder(folder: Path) -> tuple[int, int]:
    """Return the number of files below a folder and their bytes; links count as nothing."""
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return len(sizes), sum(sizes)


def get_home_folder() -> Path:
    """Return the home folder of the user.

    Raises:
        UsageError: There is none: ``HOME`` is not set, and the system does not know the user.
    """
    try:
        return Path.home()
    except RuntimeError:
        raise UsageError(
            "this user has no home folder for the files of libraries; set HOME to a folder"
        ) from None


def expand_home(path: str | Path) -> Path:
    """Replace a leading ``~`` or ``~user`` by the home folder; paths of unknown users are returned unchanged.

    >>> expand_home("~nobody-of-this-name/code").name
    'code'
    """
    path = Path(path)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def check_folder_name(folder: Path) -> None:
    """Check that the libraries that read tables can open `folder`.

    Raises:
        UsageError: Its name is not Unicode, or not in this locale.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"folder {str(folder)!a}: its name is not Unicode in this locale; rename it, or set "
            "LC_ALL=C.UTF-8"
        ) from None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file atomically: to a temporary file that is flushed to disk and renamed over `path`.

    Args:
        path: The file; parent folders are created.
        data: The full content; text is written as UTF-8 with lone surrogates escaped.

    Raises:
        StoreError: The disk is full or the folder is not writable; `path` is unchanged.
    """
    raw = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        remedy = "free space" if error.errno in _DISK_FULL_ERRORS else "name a writable folder"
        raise StoreError(
            f"cannot write {path}: {reason}; finished results are kept, {remedy} and run again"
        ) from error


def write_folder(folder: Path, write: Callable[[Path], object], *, replace: bool = False) -> None:
    """Write a folder beside its place and move it there, so that it exists completely or not at all.

    Args:
        folder: The folder.
        write: Fills the empty folder that it is given.
        replace: Whether a folder that exists is replaced; else it is kept, since another process was faster.

    Raises:
        StoreError: The folder cannot be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _make_temporary_folder(folder) as temporary:
            # The temporary folder itself can be read by its owner alone.
            new_folder = temporary / "new"
            new_folder.mkdir()
            write(new_folder)
            if replace:
                with contextlib.suppress(FileNotFoundError):
                    folder.replace(temporary / "old")
            try:
                new_folder.replace(folder)
            except OSError:
                is_written = folder.is_dir() and any(folder.iterdir())
                if not is_written:
                    raise
    except OSError as error:
        raise StoreError(
            f"cannot write {folder}: {error.strerror or error}; free space and run again"
        ) from error


_WRITER_MARK = ".writer"


_STARTUP_SECONDS = 60.0
"""Age below which a mark may not be locked by its writer yet."""


@contextmanager
def _make_temporary_folder(folder: Path) -> Generator[Path]:
    """Make a temporary folder beside a folder, and remove those that killed processes left there.

    It holds a mark that its writer has locked; the system frees the lock of a process that has died.
    """
    import fcntl

    for mark in folder.parent.glob(f".{glob.escape(folder.name)}-*/{_WRITER_MARK}"):
        with contextlib.suppress(OSError), mark.open("rb") as file:
            if read_clock() - mark.stat().st_mtime > _STARTUP_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(mark.parent, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary,
        (Path(temporary) / _WRITER_MARK).open("wb") as file,
    ):
        # Where files cannot be locked, nobody can lock the mark to remove the folder either.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield Path(temporary)


FileStamp = tuple[str, int, int, int, int]
"""Path, inode, size in bytes, modification time and change time (nanoseconds)."""


def get_file_stamps(files: Iterable[Path]) -> tuple[FileStamp, ...]:
    """Return the stamps of files, which change when a file is written again; no content is read."""
    statuses = ((path, path.stat()) for path in files)
    return tuple(
        (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in statuses
    )


def evict_least_used(files: Iterable[Path], maximum: int, companion_suffix: str = "") -> None:
    """Remove the least recently used files of a cache until the others have at most `maximum` bytes.

    The last use is the modification time. A time in the future is invalid: the clock was set back since. Such
    a file counts as the least recently used, or it would never be evicted and push out files in use.

    Args:
        files: The files; one that cannot be read or removed stays.
        maximum: Bytes that may stay.
        companion_suffix: Suffix of a file that is removed with each; empty for none.
    """
    latest = read_clock() + _CLOCK_TOLERANCE_SECONDS
    uses: list[tuple[float, int, Path]] = []
    for file in files:
        with contextlib.suppress(OSError):
            status = file.stat()
            uses.append((status.st_mtime if status.st_mtime <= latest else 0.0, status.st_size, file))
    total = sum(size for _, size, _ in uses)
    for _, size, file in sorted(uses):
        if total <= maximum:
            return
        with contextlib.suppress(OSError):
            # Another process may have removed it already.
            file.unlink(missing_ok=True)
            total -= size
            if companion_suffix:
                file.with_suffix(companion_suffix).unlink(missing_ok=True)


def try_hard_link(source: Path, target: Path) -> bool:
    """Replace `target` by a hard link to `source`; return False if the file systems do not support it."""
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


_MAXIMUM_BYTES = 200_000


_MAXIMUM_DOTS = 5_000
"""Limit because parsing is quadratic in the parts of a dotted name; floating-point numbers count too."""


_MAXIMUM_DEPTH = 16


def read_toml(path: Path, label: str, *, empty_lists: bool = False) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        label: Its kind, for messages.
        empty_lists: Whether empty lists are allowed and mean "none".

    Raises:
        InputError: The file cannot be read, or is no TOML.
        UsageError: It has an empty list, and `empty_lists` is not set.
    """
    subject = f"{label} {str(path)!r}"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAXIMUM_BYTES + 1)
        if len(raw) > _MAXIMUM_BYTES:
            raise InputError(f"{subject}: longer than {_MAXIMUM_BYTES:,} bytes")
        if raw.count(b".") > _MAXIMUM_DOTS:
            raise InputError(f"{subject}: it has more than {_MAXIMUM_DOTS:,} dots")
        table = tomllib.loads(raw.decode("utf-8"))
        _check_values(table, path, subject, empty_lists=empty_lists)
    except OSError as error:
        raise InputError(f"{subject}: {error.strerror or error}") from error
    except RecursionError:
        raise InputError(f"{subject}: not TOML that can be read: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{subject}: not TOML: {error}") from error
    return table


def _check_values(table: dict[str, Any], path: Path, subject: str, *, empty_lists: bool) -> None:
    stack: list[tuple[str, object, int]] = [(name, value, 1) for name, value in table.items()]
    while stack:
        name, value, depth = stack.pop()
        if depth > _MAXIMUM_DEPTH:
            raise InputError(f"{subject}: {name.split('.')[0]!r} has tables or lists nested too deeply")
        if isinstance(value, dict):
            stack += [(f"{name}.{key}", child, depth + 1) for key, child in value.items()]
        elif isinstance(value, list):
            if not empty_lists and (not value or "" in value):
                raise UsageError(f"{name} = {value!r} is empty; leave it out for the default").located(
                    str(path)
                )
            stack += [(name, child, depth + 1) for child in value]


_UNWRITABLE = frozenset((errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM))


_FULL = ("PytorchStreamWriter", "iostream error", "No space left", "File too large", "Disk quota")


@contextmanager
def report_full_disk(what: str, kept: str) -> Generator[None]:
    """Turn the many errors of a full disk into one line.

    Args:
        what: What cannot be written.
        kept: What is not lost by it.

    Raises:
        StoreError: A file could not be written.
    """
    try:
        yield
    except Exception as error:
        # PyTorch, safetensors and tokenizers each have an error of their own for it.
        line = " ".join(str(error).split())
        unwritable = isinstance(error, OSError) and error.errno in _UNWRITABLE
        if not unwritable and not any(word in line for word in _FULL):
            raise
        raise StoreError(f"cannot write {what}: {line[:200]}; {kept}, free space and run again") from error
