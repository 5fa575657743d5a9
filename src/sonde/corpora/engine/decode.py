"""Reading of corpus files: bytes to text within size limits, and the code of notebooks.

Every skipped file is counted under a reason. Python files are decoded as PEP 263 says (byte order mark, then
the declared encoding, then UTF-8), all others as UTF-8. Newlines stay as they are, so that offsets are those
of the file. The text of a Jupyter notebook is its code: its Python cells in order, as one text.

No more bytes, members or seconds are read than code can need. A few kilobytes may unpack to gigabytes, a
header may lie about its size, a line or a download may never end. Every read of an archive, a file of rows or
an answer from the web goes through here, so that each of these is a one-line error instead of a machine
without memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import time
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import SkipCounter

_COMMAND = re.compile(r"^(\s*)(%{1,2}[A-Za-z].*|![^=].*|\?.*|[\w.]+\?{1,2}\s*)$")


_GIVEN = re.compile(r"^(\s*[\w, ]+=\s*)(%[A-Za-z].*|![^=].*)$")


_PYTHON_MAGIC = re.compile(r"%%(time|timeit|capture|prun|debug|memit|mprun|lprun)\b")


class NotPythonError(ValueError):
    """A file that is no notebook of Python; its text says what it is."""


def notebook_code(text: str) -> str:
    """Return the Python of a notebook: a blank line between cells, IPython's commands as comments.

    Cells of another language (``%%bash``) are left out. Line numbers are those of the code returned.

    Raises:
        NotPythonError: It is no notebook, or one of another language.
    """
    try:
        notebook = json.loads(text)
        language = _language(notebook)
        cells = [*_sources(notebook)]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise NotPythonError("not a notebook") from None
    if not language.startswith(("python", "ipython", "sage")):
        raise NotPythonError("a notebook of another language")
    return "\n\n".join(code for cell in cells if (code := _python(cell))) + "\n"


def _language(notebook: Any) -> str:
    told = notebook.get("metadata") or {}
    named = (told.get("language_info") or {}).get("name") or (told.get("kernelspec") or {}).get("language")
    return str(named or "python").lower()


def _sources(notebook: Any) -> Iterator[str]:
    # Format 3 keeps the cells in worksheets, and code in another field.
    sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
    for sheet in sheets:
        for cell in sheet["cells"]:
            if cell["cell_type"] == "code":
                source = cell["source"] if "source" in cell else cell["input"]
                yield source if isinstance(source, str) else "".join(source)


def _python(cell: str) -> str:
    """Return the code of a cell; empty where it is in another language."""
    if cell.lstrip().startswith("%%") and not _PYTHON_MAGIC.match(cell.lstrip()):
        return ""
    return "\n".join(map(_plain, cell.splitlines())).strip("\n")


def _plain(line: str) -> str:
    """Return a line of Python, where it is a command of IPython as a comment after what may stand there."""
    command, given = _COMMAND.match(line), _GIVEN.match(line)
    if command is not None:
        return f"{command[1]}pass  # {command[2]}" if command[1] else f"# {command[2]}"
    return line if given is None else f"{given[1]}None  # {given[2]}"


MAX_BYTES = 2_000_000
"""Larger files are data or generated; they are never read into memory."""


MAX_LINE = 100_000
"""Files with a longer line (characters) are generated or minified."""


_NOTEBOOK = ".ipynb"


_DECLARES_ENCODING = (".py", ".pyi", ".pyw")


def _encoding(raw: bytes, path: str) -> str:
    if path.endswith(_DECLARES_ENCODING):
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    return "utf-8-sig"


def decode(raw: bytes, path: str, intake: SkipCounter) -> str | None:
    """The text of a file's bytes, or None where it cannot serve as code; the reason is counted.

    Args:
        raw: The whole content.
        path: Path inside the corpus; its suffix tells whether the file may declare its encoding.
        intake: Counts ``too large``, ``NUL bytes``, ``not decodable`` and ``very long line``.
    """
    if len(raw) > MAX_BYTES:
        return _skip(intake, "too large", path)
    if b"\0" in raw:
        return _skip(intake, "NUL bytes", path)
    try:
        text = raw.decode(_encoding(raw, path))
    except (SyntaxError, LookupError, ValueError):
        return _skip(intake, "not decodable", path)
    if path.endswith(_NOTEBOOK):
        try:
            text = notebook_code(text)
        except NotPythonError as error:
            return _skip(intake, str(error), path)
    return text if is_usable(text, path, intake) else None


def is_usable(text: str, path: str, intake: SkipCounter) -> bool:
    """Whether a decoded text can serve as code; the reason is counted as in `decode`."""
    if len(text) > MAX_BYTES:
        intake.note("too large", path)
    elif "\0" in text:
        intake.note("NUL bytes", path)
    elif not is_unicode(text):
        intake.note("not decodable", path)
    elif len(text) > MAX_LINE and max(map(len, text.split("\n"))) > MAX_LINE:
        intake.note("very long line", path)
    else:
        return True
    return False


def is_unicode(text: str) -> bool:
    """Whether a text is free of lone surrogates, which no tokenizer and no parser accepts.

    They come from undecodable file names, from escapes in JSON and from codecs such as UTF-7.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(file: Path, path: str, intake: SkipCounter) -> str | None:
    """The text of a file on disk, or None; see `decode`.

    Symbolic links are not followed, and only regular files are opened: a pipe would block.

    Args:
        file: Where the file lies.
        path: Path inside the corpus.
        intake: Counts, beside the reasons of `decode`, ``symbolic link``, ``not a regular file`` and
            ``unreadable``.
    """
    try:
        status = file.lstat()
        if stat.S_ISLNK(status.st_mode):
            return _skip(intake, "symbolic link", path)
        if not stat.S_ISREG(status.st_mode):
            return _skip(intake, "not a regular file", path)
        if status.st_size > MAX_BYTES:
            return _skip(intake, "too large", path)
        with open(file, "rb", opener=_open_regular_file) as handle:
            # Another may have been put there meanwhile.
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                return _skip(intake, "not a regular file", path)
            # What grows meanwhile, or says that it is empty, is read no further.
            raw = handle.read(MAX_BYTES + 1)
    except OSError:
        return _skip(intake, "unreadable", path)
    return decode(raw, path, intake)


def _open_regular_file(path: str, flags: int) -> int:
    """Open a file, but no link; a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _skip(intake: SkipCounter, reason: str, path: str) -> None:
    intake.note(reason, path)


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


class SizeLimit:
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

    def read_all(self, stream: _Readable, most: int, what: str, said: int = 0) -> bytes:
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


class LimitedStream:
    """A packed file as the stream of what it holds, every byte of it counted.

    Args:
        path: The file: gzip, bzip2, xz or as it is.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as handle:
            first = handle.read(6)
        self._stream: _File = _opener(first)(path)
        self.meter = SizeLimit(str(path), path.stat().st_size)
        self._past_end = 0

    def __enter__(self) -> LimitedStream:
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stream.close()

    def read(self, size: int, /) -> bytes:
        """The next bytes, as few as the caller asks for.

        Raises:
            EOFError: The end was passed again and again, as `tarfile` does to skip what a header promises.
            InputError: See `SizeLimit.spend`.
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
            return SizeLimit(f"corpus {corpus!r}").read_all(handle, MAX_WHOLE, path.name)
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
