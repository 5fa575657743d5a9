"""Exceptions of sonde with their exit codes, masking of secrets, and the log of unexpected errors.

    SondeError                     exit code 1
    ├── UsageError                 2   a wrong argument, option or name
    │   └── UnknownNameError       2   a name that no registry has; suggests the nearest
    ├── InputError                 2   a corpus, file, tokenizer or model that cannot be used
    ├── CaptureError               1   a model ran and its output must not be scored
    └── StoreError                 1   a result could not be written or read back

Every message is one line with the subject, the value, the nearest match (if any) and the fix. The command
line prints it without a traceback.

`redact_secrets` keeps keys and logins out of what a person or a file gets to read. The log holds unexpected
tracebacks and the output of native libraries.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from sonde.base.suggestions import is_typo, rank_by_meaning, suggest_by_spelling

_LOGIN = re.compile(r"(?<=://)[^/\s'\"]+@")


_SECRET_NAME = re.compile(r"TOKEN(?!IZ)|SECRET|PASSW(?:OR)?D|CREDENTIAL|(?:^|_)KEY(?:_|$)", re.IGNORECASE)


_MINIMUM_SECRET_LENGTH = 8
"""Minimum length of a key; shorter values, such as ``true``, may occur in any sentence."""


_MASK = "***"


def redact_secrets(text: str) -> str:
    """Mask logins in addresses and the values of environment variables that hold keys.

    A variable holds a key if its name says so: ``HF_TOKEN``, ``PGPASSWORD``, ``AWS_SECRET_ACCESS_KEY``,
    ``OPENAI_API_KEY``.

    >>> redact_secrets("https://me:pass@host/simple cannot be reached")
    'https://***@host/simple cannot be reached'
    """
    text = _LOGIN.sub(f"{_MASK}@", text)
    secrets = {
        value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _MINIMUM_SECRET_LENGTH
    }
    # The longest first: a secret may contain another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return text


class SondeError(Exception):
    """Base class of all errors that sonde raises on purpose; the message is one line for a person."""

    exit_code: int = 1

    def __str__(self) -> str:
        """Return the message without keys and logins: it goes to terminals, logs and the files of a run."""
        return redact_secrets(super().__str__())


class UsageError(SondeError):
    """An invalid argument, option or experiment file."""

    exit_code = 2

    def located(self, location: str) -> Self:
        """Append `location` to the message and return the error."""
        self.args = (f"{self}; in {location}",)
        return self


class UnknownNameError(UsageError):
    """A name that its registry does not have.

    Args:
        kind: What was looked up, for example ``"lens"``.
        name: The unknown name.
        candidates: The valid names.
        fix: What to do next, for example ``"see `sonde list lenses`"``.
        descriptions: Words by which somebody may look for a candidate, by its name. They are compared with
            `name` if it is not merely misspelt.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        candidates: Iterable[str],
        fix: str = "",
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        candidates = sorted(candidates)
        suggestion = suggest_by_spelling(name, candidates)
        if descriptions and not (suggestion and is_typo(name, suggestion)):
            suggestion = next(iter(rank_by_meaning(name, descriptions)), suggestion)
        parts = [f"unknown {kind} {name!r}"]
        parts.append(
            f"did you mean {suggestion!r}?" if suggestion else f"known: {', '.join(candidates) or 'none'}"
        )
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))
        self._arguments = (kind, name, tuple(candidates), fix, dict(descriptions or {}))
        self.name = name
        self.suggestion = suggestion

    def __reduce__(
        self,
    ) -> tuple[type[UnknownNameError], tuple[str, str, tuple[str, ...], str, dict[str, str]]]:
        """Return the arguments for unpickling; the default would pass the message as ``kind``."""
        return type(self), self._arguments


class InputError(SondeError):
    """Unusable input: a missing corpus, a tokenizer without offsets, a model of the wrong kind."""

    exit_code = 2


class CaptureError(SondeError):
    """A forward pass whose result must not be scored, for example NaN logits."""


class StoreError(SondeError):
    """A result that could not be written or read back: a full disk, a damaged entry."""


def build_listing_error(kind: str, name: str, candidates: Iterable[str]) -> UnknownNameError:
    """Build the error of an unknown name that lists all valid names, few enough for that, with the nearest.

    >>> str(build_listing_error("metric", "bit", ["nats", "bits"]))
    "unknown metric 'bit'; did you mean 'bits'?; known: bits, nats"
    """
    candidates = sorted(candidates)
    error = UnknownNameError(kind, name, candidates)
    if error.suggestion is None:
        return error
    return UnknownNameError(kind, name, candidates, f"known: {', '.join(candidates)}")


def explain_nan(dtype: object = "") -> str:
    """Return why numbers of a model are NaN or infinite, and the fix, for the end of a line.

    Args:
        dtype: Data type of its weights, a name or a torch dtype; empty if unknown.
    """
    name = str(dtype).removeprefix("torch.")
    if name == "float16":
        return "numbers overflow in float16; run the model with --dtype float32 or bfloat16"
    if name:
        return f"the model ran in {name}, which does not overflow: its weights are damaged"
    return (
        "its weights are damaged, or it ran in float16 and overflowed: then give --dtype float32 or bfloat16"
    )


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
