"""Log file for unexpected tracebacks and for the output of native libraries."""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sonde.base.errors import redact_secrets

LOG_NAME = "error.log"
_STDERR_DESCRIPTOR = 2
_folder: Path | None = None
_native: tuple[Path, int] | None = None
"""File that standard error is redirected to, and its size before; None if it is not redirected."""


def set_log_folder(folder: Path | None) -> None:
    """Write the log of this command into `folder`; None for the folder of temporary files."""
    global _folder
    _folder = folder


def log_path() -> Path:
    """Return the path of the log of this command; the file need not exist."""
    if _folder is not None and _folder.is_dir():
        return _folder / LOG_NAME
    return Path(tempfile.gettempdir()) / f"sonde-{LOG_NAME}"


def append_to_log(text: str) -> bool:
    """Append `text` to the log with a timestamp and without secrets; return False if it cannot be written."""
    timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        with log_path().open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(redact_secrets(f"{timestamp} {text}\n"))
    except OSError:
        return False
    return True


def redirect_native_errors() -> None:
    """Send what native libraries write to standard error to the log, for the rest of this process.

    Python's own `sys.stderr` still writes to the terminal. A second call follows the log to its new path.
    Nothing changes if `sys.stderr` is not the standard error of the process, as in a notebook or under a
    test, or if the log cannot be opened.
    """
    global _native
    path = log_path()
    if _native is not None and path == _native[0]:
        return
    try:
        if _native is None and sys.stderr.fileno() != _STDERR_DESCRIPTOR:
            return
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except (OSError, ValueError, AttributeError):
        return
    if _native is None:
        sys.stderr.flush()
        terminal, encoding = os.dup(_STDERR_DESCRIPTOR), sys.stderr.encoding
        sys.stderr = os.fdopen(terminal, "w", 1, encoding=encoding, errors="backslashreplace")
    discard_native_errors()
    _native = path, os.fstat(log).st_size
    os.dup2(log, _STDERR_DESCRIPTOR)
    os.close(log)


def log_native_error(text: str) -> None:
    """Append a message of a library to the log; `discard_native_errors` removes it again."""
    if _native is None:
        append_to_log(text)
    else:
        with suppress(OSError):
            os.write(_STDERR_DESCRIPTOR, redact_secrets(f"{text}\n").encode(errors="backslashreplace"))


def discard_native_errors() -> None:
    """Remove what was written to the log since standard error was redirected, after a success."""
    if _native is None:
        return
    path, size = _native
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, _STDERR_DESCRIPTOR)
        os.close(null)
        os.truncate(path, size)
        if not size:
            path.unlink()
