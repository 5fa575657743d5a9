"""Reading what others wrote: never more bytes, members or seconds than code can need.

A few kilobytes may unpack to gigabytes, a header may lie about its size, a line or a download may never end.
Every read of an archive, a file of rows or an answer from the web goes through here, so that each of them is
a line for a person in place of a machine without memory.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from sonde.base.errors import InputError
from sonde.corpora._decode import MAX_BYTES

MAX_METADATA = 1_000_000
"""Bytes of a distribution's description of itself; the longest on the index are some hundred thousand."""

MAX_WHOLE = 1_000_000_000
"""Bytes of a file, or an answer from the web, that is read as a whole."""

LONGEST_LINE = 20 * MAX_BYTES
"""Bytes of a line of rows: a file of the largest size, every character escaped."""

MAX_MEMBERS = 500_000
"""Members of one archive."""

_MOST_RATIO = 50
_FREE_BYTES = 100_000_000
_MAX_UNPACKED = 20_000_000_000
_MAX_SECONDS = 1_800
_STEP = 1 << 20
_PATIENCE = 8


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _File(_Readable, Protocol):
    def close(self) -> None: ...


class Meter:
    """What has been unpacked of one source, and for how long.

    Args:
        name: What is read, for the message.
        packed: Its size as it lies; 0 where that is unknown and says nothing.
    """

    def __init__(self, name: str, packed: int = 0) -> None:
        self._name = name
        self._most = min(_MAX_UNPACKED, max(_FREE_BYTES, _MOST_RATIO * packed)) if packed else _MAX_UNPACKED
        self._deadline = time.monotonic() + _MAX_SECONDS
        self._bytes = self._members = 0

    def spend(self, count: int, members: int = 0) -> None:
        """Count bytes and members.

        Raises:
            InputError: There are more than of any honest source.
        """
        self._bytes += count
        self._members += members
        if self._bytes > self._most:
            raise InputError(f"{self._name}: more than {self._most:,} bytes; it is damaged or made to harm")
        if self._members > MAX_MEMBERS:
            raise InputError(f"{self._name}: more than {MAX_MEMBERS:,} members; name a smaller archive")
        if time.monotonic() > self._deadline:
            raise InputError(
                f"{self._name}: still unread after {_MAX_SECONDS // 60} minutes; unpack it first"
            )

    def read(self, stream: _Readable, most: int) -> bytes:
        """At most ``most`` bytes of a stream and one more, by which a longer one is known.

        Raises:
            InputError: See `spend`.
        """
        parts: list[bytes] = []
        left = most + 1
        while left > 0 and (part := stream.read(min(left, _STEP))):
            self.spend(len(part))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def whole(self, stream: _Readable, most: int, what: str, said: int = 0) -> bytes:
        """All of a stream that is expected to be short.

        Args:
            stream: The stream.
            most: Bytes that it may have.
            what: What it is, for the message.
            said: Bytes that it says it has.

        Raises:
            InputError: It is longer.
        """
        raw = self.read(stream, most) if said <= most else b""
        if max(said, len(raw)) > most:
            raise InputError(f"{self._name}: {what} is longer than {most:,} bytes")
        return raw


class Unpacked:
    """A packed file as the stream of what it holds, every byte of it counted.

    Args:
        path: The file: gzip, bzip2, xz or as it is.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as handle:
            first = handle.read(6)
        self._stream: _File = _opener(first)(path)
        self.meter = Meter(str(path), path.stat().st_size)
        self._past_end = 0

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stream.close()

    def read(self, size: int, /) -> bytes:
        """The next bytes, as few as the caller asks for.

        Raises:
            EOFError: The end was passed again and again, as `tarfile` does to skip what a header promises.
            InputError: See `Meter.spend`.
        """
        raw = self._stream.read(min(size, _STEP))
        self.meter.spend(len(raw))
        self._past_end = 0 if raw else self._past_end + 1
        if self._past_end > _PATIENCE:
            raise EOFError("it ends before its members do")
        return raw


def _opener(first: bytes) -> Callable[[Path], _File]:
    if first.startswith(b"\x1f\x8b"):
        return lambda path: gzip.open(path, "rb")
    if first.startswith(b"BZh"):
        return lambda path: bz2.open(path, "rb")
    if first.startswith(b"\xfd7zXZ"):
        return lambda path: lzma.open(path, "rb")
    return lambda path: path.open("rb")


def read_document(path: Path, corpus: str) -> bytes:
    """A file as a whole.

    Raises:
        InputError: It is longer than any that can be read so, or cannot be read.
    """
    try:
        with path.open("rb") as handle:
            return Meter(f"corpus {corpus!r}").whole(handle, MAX_WHOLE, path.name)
    except OSError as error:
        raise InputError(
            f"corpus {corpus!r}: {path.name} cannot be read: {error.strerror or error}"
        ) from None


def numbered_lines(handle: BinaryIO, corpus: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, with their numbers from 1.

    Raises:
        InputError: A line does not end.
    """
    number = 0
    while line := handle.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise InputError(
                f"corpus {corpus!r}: line {number} is longer than {LONGEST_LINE:,} bytes; "
                "write one object a line"
            )
        if line.strip():
            yield number, line
