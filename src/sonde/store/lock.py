"""One process a folder: a lock that the system frees when its holder dies, and that names the holder."""

from __future__ import annotations

import datetime
import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import check_name

NAME = ".lock"


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Hold a folder while something is written into it.

    The lock of a process that has died is free: the next one takes it over.

    Raises:
        UsageError: Another process holds it; says which, where and since when. Or its name is not Unicode.
        StoreError: The folder cannot be written to.
    """
    import fcntl

    check_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / NAME).open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise _not_writable(folder, error) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise UsageError(
                f"folder {str(folder)!r} is in use by {_holder(handle.read(1000))}; wait for it, or name "
                "another folder with -o"
            ) from None
        since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        holder = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
        try:
            handle.truncate(0)
            # Nothing is left in a buffer that would be written, and fail, once more.
            os.write(handle.fileno(), holder.encode())
        except OSError as error:
            raise _not_writable(folder, error) from error
        try:
            yield
        finally:
            handle.truncate(0)


def _not_writable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"folder {str(folder)!r}: cannot be written to ({error.strerror or error})")


def _holder(content: str) -> str:
    try:
        found = json.loads(content)
        return f"process {int(found['pid'])} on {str(found['host'])[:80]!r} since {str(found['since'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "another process"
