"""Where the functions of a corpus stand, kept from one run to the next: reading is fast, parsing is not.

One file a corpus in the cache. What it says of a file goes by the file's content and language, so a changed
file is parsed again and a corpus that has moved is not; the index as a whole goes by the code that finds
functions. Whatever is odd about an index file, it is as if it were not there.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sonde.base.errors import SondeError
from sonde.base.files import cache_folder, write_atomic
from sonde.base.fingerprint import fingerprint, hash_bytes, hash_text
from sonde.corpora._corpus import SourceFile
from sonde.languages import LANGUAGES, Function

FOLDER = "functions"
_MOST_BYTES = 500_000_000
_MOST_UNPACKED = 1_000_000_000
_DIGEST = 32
_SOURCES = (".py", ".scm", ".toml")


class SpansIndex:
    """The functions of a corpus's files, as far as they were found before.

    Args:
        known: By language and content.
    """

    def __init__(self, known: dict[str, list[Function]]) -> None:
        self.known = known
        self.used: dict[str, list[Function]] = {}
        self.grown = False

    def functions(self, file: SourceFile) -> Sequence[Function]:
        """The functions of a file, found now where they are not known."""
        key = f"{file.language}:{hash_text(file.text)}"
        found = self.known.get(key)
        if found is None:
            found = list(LANGUAGES.load(file.language).functions(file.text))
            self.known[key] = found
            self.grown = True
        self.used[key] = found
        return found


@contextmanager
def spans_index(corpus: str, languages: tuple[str, ...]) -> Generator[SpansIndex]:
    """The index of a corpus, written back when something was found that it did not hold.

    Processes that write at once do not disturb each other: the last one's index stays, whole.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names of the languages that are read; empty means all.
    """
    # Versions of the package that find functions otherwise keep an index each.
    path = cache_folder(FOLDER) / fingerprint(corpus, sorted(languages), _rules())
    index = SpansIndex(_read(path))
    yield index
    if index.grown:
        # A cache that cannot be written costs time alone.
        with suppress(SondeError, OSError):
            write_atomic(path, _packed(index.used))
            _prune(path.parent)


def _read(path: Path) -> dict[str, list[Function]]:
    try:
        raw = path.read_bytes()
        body = raw[_DIGEST:]
        if len(raw) > _MOST_BYTES or raw[:_DIGEST] != _digest(body):
            return {}
        unpacked = zlib.decompressobj().decompress(body, _MOST_UNPACKED)
        found = {key: [_function(row) for row in rows] for key, rows in json.loads(unpacked).items()}
        os.utime(path)
    except (OSError, ValueError, TypeError, AttributeError, zlib.error, RecursionError):
        return {}
    return found


def _function(row: list[Any]) -> Function:
    start, end, name, qualified, docstring, margins = row
    return Function(start, end, name, qualified, docstring, tuple((first, last) for first, last in margins))


def _packed(found: dict[str, list[Function]]) -> bytes:
    rows = {key: [dataclasses.astuple(one) for one in functions] for key, functions in found.items()}
    body = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)
    return _digest(body) + body


def _digest(body: bytes) -> bytes:
    """Of the content, so that a damaged index is none."""
    return hash_bytes(body).encode()


@functools.cache
def _rules() -> str:
    """Of the code that finds functions, so that an index of other rules is another one."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources(files("sonde.languages"))):
        digest.update(f"{name}:{len(content)}:".encode() + content)
    versions = [LANGUAGES.load(name).version for name in LANGUAGES.names()]
    return fingerprint(digest.hexdigest(), versions)


def _sources(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(_SOURCES):
            yield str(entry), entry.read_bytes()


def _prune(folder: Path) -> None:
    """Remove the indexes that were not read for longest, until the folder is of its size."""
    held = sorted((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.iterdir())
    size = sum(one for _, one, _ in held)
    for _, one, entry in held[:-1]:
        if size <= _MOST_BYTES:
            break
        entry.unlink(missing_ok=True)
        size -= one
