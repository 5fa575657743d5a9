"""What was found out about the files of a corpus, kept in the cache: reading is fast, parsing is not.

One file a corpus. What it says of a source file goes by that file's content and language, so a changed file
is parsed again and a corpus that has moved is not; as a whole it goes by the code that parses. If anything is
odd about such a file, it is as if it were not there.

It is a line an answer, the key before a tab and JSON behind it. In memory answers stay as these lines until
they are asked for: those of some hundred thousand functions are many times as large when they are objects.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import SondeError
from sonde.base.files import cache_folder, last_use, write_atomic
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


Answer = TypeVar("Answer")


class KeptAnswers(MutableMapping[str, Answer]):
    """Answers by the key of a file's content, as JSON lines in memory as on disk.

    Args:
        path: Where they are kept; where nothing readable is, there are none.
        decode: The answer that a value of JSON stands for.
        encode: The value of JSON of an answer.

    Attributes:
        grown: Whether something was found that was not kept.
    """

    def __init__(self, path: Path, decode: Callable[[Any], Answer], encode: Callable[[Answer], Any]) -> None:
        self._path, self._decode, self._encode = path, decode, encode
        self._lines = _read(path)
        self.grown = False

    def __getitem__(self, key: str) -> Answer:
        line = self._lines[key]
        try:
            return self._decode(json.loads(line))
        except (ValueError, TypeError, RecursionError):
            raise KeyError(key) from None

    def __setitem__(self, key: str, answer: Answer) -> None:
        line = json.dumps(self._encode(answer), separators=(",", ":")).encode()
        self.grown = self.grown or line != self._lines.get(key)
        self._lines[key] = line

    def __delitem__(self, key: str) -> None:
        del self._lines[key]

    def __contains__(self, key: object) -> bool:
        return key in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def write(self) -> None:
        """Keep the answers, if there are new ones; a cache that cannot be written costs time alone.

        Processes that write at once do not disturb each other: the last one's file stays, whole.
        """
        if not self.grown:
            return
        packer = zlib.compressobj(1)
        with suppress(SondeError, OSError):
            packed = [
                packer.compress(key.encode() + b"\t" + line + b"\n") for key, line in self._lines.items()
            ]
            body = b"".join([*packed, packer.flush()])
            write_atomic(self._path, _digest(body) + body)
            _prune(self._path.parent)


def _read(path: Path) -> dict[str, bytes]:
    """The lines by their keys; none where the file is missing, damaged or too large."""
    try:
        raw = path.read_bytes()
        body = raw[_DIGEST:]
        if len(raw) > _MOST_BYTES or raw[:_DIGEST] != _digest(body):
            return {}
        lines = io.BytesIO(zlib.decompressobj().decompress(body, _MOST_UNPACKED))
        found = {key.decode(): line for key, line in (one[:-1].split(b"\t", 1) for one in lines)}
        os.utime(path)
    except (OSError, ValueError, zlib.error):
        return {}
    return found


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
    status = [(entry.stat(), entry) for entry in folder.iterdir()]
    held = sorted((last_use(stat), stat.st_size, entry) for stat, entry in status)
    size = sum(one for _, one, _ in held)
    for _, one, entry in held[:-1]:
        if size <= _MOST_BYTES:
            break
        entry.unlink(missing_ok=True)
        size -= one
