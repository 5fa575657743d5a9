"""Bytes to text: what is read of a corpus, what is skipped, and under which reason it is counted.

Python files are decoded as PEP 263 says (byte order mark, then the declared encoding, then UTF-8), all
others as UTF-8. Newlines stay as they are, so that offsets are those of the file. Of a notebook the text
is its code, see `sonde.corpora._notebook`.
"""

from __future__ import annotations

import io
import os
import stat
import tokenize
from pathlib import Path

from sonde.corpora._corpus import Intake
from sonde.corpora._notebook import NotPythonError, notebook_code

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


def decode(raw: bytes, path: str, intake: Intake) -> str | None:
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


def is_usable(text: str, path: str, intake: Intake) -> bool:
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


def read_text(file: Path, path: str, intake: Intake) -> str | None:
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
        with open(file, "rb", opener=_open_itself) as handle:
            # Another may have been put there meanwhile.
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                return _skip(intake, "not a regular file", path)
            # What grows meanwhile, or says that it is empty, is read no further.
            raw = handle.read(MAX_BYTES + 1)
    except OSError:
        return _skip(intake, "unreadable", path)
    return decode(raw, path, intake)


def _open_itself(path: str, flags: int) -> int:
    """Open a file, but no link; a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _skip(intake: Intake, reason: str, path: str) -> None:
    intake.note(reason, path)
