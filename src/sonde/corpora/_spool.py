"""Files that a corpus may be built of: on disk as they will be written, in memory what is asked of all."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sonde.base.errors import StoreError
from sonde.corpora._corpus import SourceFile
from sonde.corpora._row import from_line, to_line


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line lies in a file: its first byte and its length."""

    begin: int
    length: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may stay.

    Attributes:
        corpus: Number of its corpus.
        source_path: Its path there.
        item_id: Its path in the corpus that is built.
        language: Public name of its language.
        cluster: Its unit of resampling.
        content: Hash of what it says.
        place: Where its line lies.
    """

    corpus: int
    source_path: str
    item_id: str
    language: str
    cluster: str
    content: str
    place: LinePlace


class LineFile:
    """A new file of lines, written once from front to end.

    Args:
        path: Where; nothing may be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        try:
            self._handle = path.open("xb")
        except OSError as error:
            raise _unwritten(path, error) from error

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: BaseException | TracebackType | None) -> None:
        """Close; what was written well is brought to the disk first.

        Raises:
            StoreError: The disk is full.
        """
        try:
            if kind is None:
                self._handle.flush()
                os.fsync(self._handle.fileno())
            self._handle.close()
        except OSError as error:
            if kind is None:
                raise _unwritten(self.path, error) from error

    def add(self, line: bytes) -> LinePlace:
        """Append a line.

        Raises:
            StoreError: The disk is full or the folder is gone.
        """
        place = LinePlace(self.size, len(line))
        try:
            self._handle.write(line)
        except OSError as error:
            raise _unwritten(self.path, error) from error
        self.size += len(line)
        return place

    def add_file(self, file: SourceFile, path: str) -> LinePlace:
        """Append a file as a line, under another path."""
        return self.add(to_line(dataclasses.replace(file, path=path, split="")))


class Spool:
    """Lines of a finished file, read by place.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._handle = path.open("rb")

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *ignored: object) -> None:
        self._handle.close()

    def line(self, place: LinePlace) -> bytes:
        """The bytes of a line."""
        self._handle.seek(place.begin)
        return self._handle.read(place.length)

    def file(self, place: LinePlace) -> SourceFile:
        """The file of a line."""
        return from_line(self.line(place))


def sha256_of(path: Path) -> str:
    """Hash of a file as manifests have it, whatever its size.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, hashlib.sha256).hexdigest()


def _unwritten(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write {path}: {error.strerror or error}; nothing was changed, free space and run again"
    )
