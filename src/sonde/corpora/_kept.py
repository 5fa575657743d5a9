"""What was found out about the files of a corpus, kept in the cache: reading is fast, parsing is not.

One file a corpus. What it says of a source file goes by that file's content and language, so a changed file
is parsed again and a corpus that has moved is not; as a whole it goes by the code that parses. If anything is
odd about such a file, it is as if it were not there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from sonde.base.errors import SondeError
from sonde.base.files import cache_folder, write_atomic
from sonde.base.fingerprint import fingerprint, hash_bytes, hash_text
from sonde.corpora._corpus import SourceFile
from sonde.languages import LANGUAGES, version_of

_MOST_BYTES = 500_000_000
_MOST_UNPACKED = 1_000_000_000
_DIGEST = 32
_SOURCES = (".py", ".scm", ".toml")


def content_key(file: SourceFile) -> str:
    """By what a file is known."""
    return f"{file.language}:{hash_text(file.text)}"


def kept_path(folder: str, *parts: Any) -> Path:
    """Where answers about a corpus are kept; versions of the package that parse otherwise keep their own."""
    return cache_folder(folder) / fingerprint(*parts, _rules())


def read_kept(path: Path) -> dict[str, Any]:
    """The answers by content; none where the file is missing, damaged or too large."""
    try:
        raw = path.read_bytes()
        body = raw[_DIGEST:]
        if len(raw) > _MOST_BYTES or raw[:_DIGEST] != _digest(body):
            return {}
        unpacked = zlib.decompressobj().decompress(body, _MOST_UNPACKED)
        found = dict(json.loads(unpacked).items())
        os.utime(path)
    except (OSError, ValueError, TypeError, AttributeError, zlib.error, RecursionError):
        return {}
    return found


def write_kept(path: Path, answers: Mapping[str, Any]) -> None:
    """Keep answers; a cache that cannot be written costs time alone.

    Processes that write at once do not disturb each other: the last one's file stays, whole.
    """
    with suppress(SondeError, OSError):
        body = zlib.compress(json.dumps(answers, separators=(",", ":")).encode(), 1)
        write_atomic(path, _digest(body) + body)
        _prune(path.parent)


def _digest(body: bytes) -> bytes:
    """Of the content, so that a damaged file is none."""
    return hash_bytes(body).encode()


@functools.cache
def _rules() -> str:
    """Of the code that parses, so that answers by other rules are kept apart."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources(files("sonde.languages"))):
        digest.update(f"{name}:{len(content)}:".encode() + content)
    versions = [version_of(name) for name in LANGUAGES.names()]
    return fingerprint(digest.hexdigest(), versions)


def _sources(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(_SOURCES):
            yield str(entry), entry.read_bytes()


def _prune(folder: Path) -> None:
    """Remove the files that were not read for longest, until the folder is of its size."""
    held = sorted((entry.stat().st_mtime, entry.stat().st_size, entry) for entry in folder.iterdir())
    size = sum(one for _, one, _ in held)
    for _, one, entry in held[:-1]:
        if size <= _MOST_BYTES:
            break
        entry.unlink(missing_ok=True)
        size -= one
