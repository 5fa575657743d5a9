"""Exceptions of sonde with their exit codes, and the masking of secrets in messages and files.

    SondeError                     exit code 1
    ├── UsageError                 2   a wrong argument, option or name
    │   └── UnknownNameError       2   a name that no registry has; suggests the nearest
    ├── InputError                 2   a corpus, file, tokenizer or model that cannot be used
    ├── CaptureError               1   a model ran and its output must not be scored
    └── StoreError                 1   a result could not be written or read back

Every message is one line with the subject, the value, the nearest match (if any) and the fix. The command
line prints it without a traceback.

`redact_secrets` keeps keys and logins out of what a person or a file gets to read.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from typing import Self

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
    """

    def __init__(self, kind: str, name: str, candidates: Iterable[str], fix: str = "") -> None:
        candidates = sorted(candidates)
        matches = difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
        parts = [f"unknown {kind} {name!r}"]
        parts.append(
            f"did you mean {matches[0]!r}?" if matches else f"known: {', '.join(candidates) or 'none'}"
        )
        if fix:
            parts.append(fix)
        super().__init__("; ".join(parts))
        self._arguments = (kind, name, tuple(candidates), fix)
        self.name = name
        self.suggestion = matches[0] if matches else None

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[str, str, tuple[str, ...], str]]:
        """Return the arguments for unpickling; the default would pass the message as ``kind``."""
        return type(self), self._arguments


class InputError(SondeError):
    """Unusable input: a missing corpus, a tokenizer without offsets, a model of the wrong kind."""

    exit_code = 2


class CaptureError(SondeError):
    """A forward pass whose result must not be scored, for example NaN logits."""


class StoreError(SondeError):
    """A result that could not be written or read back: a full disk, a damaged entry."""


def explain_nan(dtype: object = "") -> str:
    """Return why numbers of a model are NaN or infinite, and the fix, for the end of a line.

    Args:
        dtype: Data type of its weights, a name or a torch dtype; empty if unknown.
    """
    name = str(dtype).removeprefix("torch.")
    if name == "float16":
        return "numbers overflow in float16; run the model with --dtype float32 or bfloat16"
    if name:
        return f"the model ran in {name}, where nothing overflows: its weights are damaged"
    return (
        "its weights are damaged, or it ran in float16 and overflowed: then give --dtype float32 or bfloat16"
    )
