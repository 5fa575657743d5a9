"""Cache of facts about the files of a corpus: functions, definitions and imports.

Facts are cached because reading is fast and parsing is not: where functions are, and what files define and
import, is kept between runs. Each corpus has one file. An entry is keyed by the content and language of a
source file, so a changed file is parsed again and a corpus that has moved is not; the file as a whole is
keyed by the code that parses. If anything is odd about such a file, it is treated as missing.

It has a line per answer: the key, a tab and JSON. In memory answers stay lines until they are asked for:
those of some hundred thousand functions are many times as large as objects.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from sonde.base.errors import SondeError
from sonde.base.files import evict_least_used, get_cache_folder, write_atomic
from sonde.base.fingerprint import fingerprint, hash_bytes, hash_text
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.parallel import AHEAD, ItemChunk, ParallelMap, make_chunks
from sonde.languages import (
    LANGUAGES,
    Definition,
    Function,
    get_facet,
    get_language_version,
    has_facet,
    parses,
)
from sonde.languages.engine.tagging import Tagger

_MOST_BYTES = 500_000_000


_MAX_UNPACKED_BYTES = 1_000_000_000


_DIGEST = 32


_SOURCES = (".py", ".scm", ".toml")


def content_key(file: SourceFile) -> str:
    """Return the cache key of a file: its language and the hash of its text."""
    return f"{file.language}:{hash_text(file.text)}"


def cache_path(folder: str, *parts: Any) -> Path:
    """Return the path of a cache file, whose name depends on the code that parses."""
    return get_cache_folder(folder) / fingerprint(*parts, _rules())


Answer = TypeVar("Answer")


class ContentCache(MutableMapping[str, Answer]):
    """A mapping from content keys to answers, stored as JSON lines in memory and on disk.

    Args:
        path: The cache file; if it is missing or unreadable, the cache is empty.
        decode: Converts a JSON value to an answer.
        encode: Converts an answer to a JSON value.

    Attributes:
        grown: Whether an answer was added or changed.
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
        """Write the answers if there are new ones; ignore a failure, which only costs time.

        Processes that write at once do not disturb each other: the last one's file stays, whole.
        """
        if not self.grown:
            return
        packer = zlib.compressobj(1)
        with suppress(SondeError, OSError):
            chunks = [
                packer.compress(key.encode() + b"\t" + line + b"\n") for key, line in self._lines.items()
            ]
            body = b"".join([*chunks, packer.flush()])
            write_atomic(self._path, _digest(body) + body)
            evict_least_used(self._path.parent.iterdir(), _MOST_BYTES)


def _read(path: Path) -> dict[str, bytes]:
    """Read the lines by key; none if the file is missing, damaged or too large."""
    try:
        raw = path.read_bytes()
        body = raw[_DIGEST:]
        if len(raw) > _MOST_BYTES or raw[:_DIGEST] != _digest(body):
            return {}
        lines = io.BytesIO(zlib.decompressobj().decompress(body, _MAX_UNPACKED_BYTES))
        line_by_key = {
            key.decode(): line for key, line in (raw_line[:-1].split(b"\t", 1) for raw_line in lines)
        }
        os.utime(path)
    except (OSError, ValueError, zlib.error):
        return {}
    return line_by_key


def _digest(body: bytes) -> bytes:
    """Return the checksum by which a damaged file is recognised."""
    return hash_bytes(body).encode()


@functools.cache
def _rules() -> str:
    """Return the fingerprint of the code that parses, which separates answers of other versions."""
    versions = [get_language_version(name) for name in LANGUAGES.names()]
    return fingerprint(hash_sources(files("sonde.languages")), versions)


def hash_sources(folder: Traversable) -> str:
    """Hash the sources of a package."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources(folder)):
        digest.update(f"{name}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def _sources(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(_SOURCES):
            yield str(entry), entry.read_bytes()


_FUNCTIONS = "functions"


_IMPORTS = "imports"


_DEFINITIONS = "definitions"


INCOMPLETE_REASON = "with a parse error, where functions may be missing"
"""The reason by which files are counted that are read all the same."""


@dataclass(frozen=True, slots=True)
class FileFunctions:
    """The functions of a file, and whether the grammar reads all of it.

    Attributes:
        functions: The functions.
        parses: False if functions may be missing: none is found inside a parse error.
    """

    functions: list[Function]
    parses: bool


class SpansIndex:
    """An index of the functions of a corpus's files, backed by a cache.

    Args:
        cache: Functions by language and content.
    """

    def __init__(self, cache: ContentCache[FileFunctions]) -> None:
        self.cache = cache
        self.used: set[str] = set()
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, list[Definition]] = {}

    def prefetch(self, files: Iterable[SourceFile], parallel: ParallelMap) -> Iterator[SourceFile]:
        """Yield the files in order, after several processes have parsed the uncached ones.

        Args:
            files: The files; as many are held as these have in hand.
            parallel: Processes that parse; if there is only this one, `functions` parses on demand.
        """
        if parallel.is_serial:
            yield from files
            return
        for batch in make_chunks(files, times=AHEAD * parallel.workers):
            missing = {key: file for file in batch if (key := content_key(file)) not in self.cache}
            answers = parallel.of_files.map(_find_functions, None, missing.values())
            for key, (_, facts) in zip(missing, answers, strict=True):
                self._add(key, facts)
            yield from batch

    def functions(self, file: SourceFile) -> Sequence[Function]:
        """Return the functions of a file; parse it if they are not cached."""
        return self._find_functions(file).functions

    def count_incomplete(self, file: SourceFile, intake: SkipCounter) -> None:
        """Count a file if functions in it may be missing."""
        if file.unit == "file" and not self._find_functions(file).parses:
            intake.note(INCOMPLETE_REASON, file.path)

    def _find_functions(self, file: SourceFile) -> FileFunctions:
        key = content_key(file)
        self.used.add(key)
        file_functions = self.cache.get(key)
        return self._add(key, _read_facts(file)) if file_functions is None else file_functions

    def _add(self, key: str, answer: _FileFacts) -> FileFunctions:
        file_functions, self.definitions[key], imports = answer
        self.cache[key] = file_functions
        if imports is not None:
            self.imports[key] = imports
        return file_functions


_FileFacts = tuple[FileFunctions, list[Definition], str | None]
"""The functions of a file, what it defines, and what it imports."""


def _find_functions(part: ItemChunk[None, SourceFile]) -> list[_FileFacts]:
    """Find the functions, definitions and imports of some files; runs in any process."""
    return [_read_facts(file) for file in part.items]


def _read_facts(file: SourceFile) -> _FileFacts:
    language = LANGUAGES.load(file.language)
    functions, is_parsed = list(language.functions(file.text)), parses(file.language, file.text)
    return FileFunctions(functions, is_parsed), list(language.definitions(file.text)), _imports(file)


def _imports(file: SourceFile) -> str | None:
    """Return the import statements of a file; None if the language cannot find them."""
    has_tagger = has_facet(file.language, "tagging")
    return get_facet(file.language, "tagging", Tagger).imports(file.text) if has_tagger else None


@contextmanager
def open_cache(
    decode: Callable[[Any], Answer], encode: Callable[[Answer], Any], folder: str, *parts: Any
) -> Generator[ContentCache[Answer]]:
    """Open a cache whose file depends on some parts and on the code that parses; write it if it has grown.

    Args:
        decode: Converts a JSON value to an answer.
        encode: Converts an answer to a JSON value.
        folder: Name of the folder in the cache.
        parts: What names the file.
    """
    cache = ContentCache(cache_path(folder, *parts), decode, encode)
    yield cache
    cache.write()


@contextmanager
def spans_index(corpus: str, languages: tuple[str, ...]) -> Generator[SpansIndex]:
    """Open the index of a corpus; write it back if it has grown.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names of the languages that are read; empty means all.
    """
    with open_cache(_functions, _rows, _FUNCTIONS, corpus, sorted(languages)) as cache:
        index = SpansIndex(cache)
        yield index
        if not cache.grown:
            return
        # What the corpus no longer holds goes.
        for key in cache.keys() - index.used:
            del cache[key]
    with cached_imports(corpus) as imports, cached_definitions(corpus) as definitions:
        imports.update(index.imports)
        definitions.update(index.definitions)


def cached_imports(corpus: str) -> AbstractContextManager[MutableMapping[str, str]]:
    """Open the cache of import statements by content key; write it on exit.

    Args:
        corpus: The corpus as named on the command line.
    """
    return open_cache(str, str, _IMPORTS, corpus)


def cached_definitions(corpus: str) -> AbstractContextManager[MutableMapping[str, list[Definition]]]:
    """Open the cache of definitions by content key; write it on exit.

    Args:
        corpus: The corpus as named on the command line.
    """
    return open_cache(_definitions, _plain, _DEFINITIONS, corpus)


def _plain(rows: Sequence[Function | Definition]) -> list[tuple[Any, ...]]:
    return [dataclasses.astuple(row) for row in rows]


def _definitions(rows: list[list[Any]]) -> list[Definition]:
    return [Definition(*row) for row in rows]


def _rows(file_functions: FileFunctions) -> list[Any]:
    return [file_functions.parses, _plain(file_functions.functions)]


def _functions(value: list[Any]) -> FileFunctions:
    is_parsed, rows = value
    functions = [
        Function(start, end, name, qualified_name, docstring, tuple((first, last) for first, last in margins))
        for start, end, name, qualified_name, docstring, margins in rows
    ]
    return FileFunctions(functions, is_parsed)
