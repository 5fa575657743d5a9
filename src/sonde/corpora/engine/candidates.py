"""Candidate items: attributes for the selection in memory, texts on disk; and the first items by hash.

A few thousand of some million functions are selected, and most of the others are never looked into.

Only the first items of a table by hash are read if labels are sampled by hash and a few of many rows are
enough. The content hash of every file is kept, also for corpora of millions of files; those of a small corpus
stay in a list, so that it needs no table library.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sonde.base.errors import StoreError
from sonde.base.fingerprint import fingerprint_rows, unit_hash
from sonde.corpora.engine.corpus import Given, Item, SourceFile, Tag

if TYPE_CHECKING:
    import polars as pl

_IN_MEMORY = 64_000_000
"""Bytes beyond which texts go to a temporary file, which lies where `tempfile` says (``TMPDIR``)."""


class TextFile:
    """A temporary file with the texts of items, in memory while it is small."""

    def __init__(self) -> None:
        self._handle = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - `close` closes it
        self._size = 0

    def close(self) -> None:
        """Remove the file."""
        self._handle.close()

    def add(self, item: Item) -> CandidateItem:
        """Add an item.

        Raises:
            StoreError: The disk is full.
        """
        fields = {name: value for name in _DISK_FIELDS if (value := getattr(item, name)) or name == "text"}
        line = json.dumps(fields, default=dataclasses.asdict).encode()
        begin = self._size
        try:
            self._handle.seek(begin)
            self._handle.write(line)
        except OSError as error:
            raise StoreError(
                f"cannot write what is read of a corpus to {tempfile.gettempdir()}: "
                f"{error.strerror or error}; free space there, or name another folder in TMPDIR"
            ) from error
        self._size += len(line)
        attributes = {name: getattr(item, name) for name in _MEMORY_FIELDS}
        return CandidateItem(**attributes, _texts=self, _begin=begin, _length=len(line))

    def read(self, begin: int, length: int) -> dict[str, Any]:
        """Read the fields that were written at `begin`."""
        self._handle.seek(begin)
        return json.loads(self._handle.read(length))


@dataclass(slots=True, kw_only=True)
class CandidateItem:
    """An item that may be selected, with the attributes of `Item` that the selection needs."""

    item_id: str
    language: str
    path: str
    offset: int
    cluster: str
    repository: str
    oldest: str
    newest: str
    period: str
    _texts: TextFile = field(repr=False)
    _begin: int
    _length: int

    @property
    def text(self) -> str:
        """Return the code, read from the file."""
        return self._read_fields()["text"]

    def item(self) -> Item:
        """Return the item with the attributes as they are here."""
        fields = self._read_fields()
        for name, kind in (("tags", Tag), ("given", Given)):
            fields[name] = tuple(kind(**values) for values in fields.get(name, ()))
        fields["cuts"] = tuple(fields.get("cuts", ()))
        fields |= {name: getattr(self, name) for name in _MEMORY_FIELDS}
        # A hundred thousand items have a few units and licences, and most no identifier of their own.
        fields |= {name: sys.intern(fields[name]) for name in ("unit", "licence") if name in fields}
        if fields.get("identifier") == self.item_id:
            fields["identifier"] = self.item_id
        return Item(**fields)

    def _read_fields(self) -> dict[str, Any]:
        return self._texts.read(self._begin, self._length)


_MEMORY_FIELDS = tuple(
    attribute.name for attribute in dataclasses.fields(CandidateItem) if not attribute.name.startswith("_")
)


_DISK_FIELDS = tuple(
    attribute.name for attribute in dataclasses.fields(Item) if attribute.name not in _MEMORY_FIELDS
)


class EnoughCheck(Protocol):
    """A check whether the first items of a language suffice."""

    def __call__(self, items: Sequence[Item], remaining: Sequence[Item], /) -> bool:
        """Return whether the first items suffice.

        Args:
            items: The first items in one language.
            remaining: Some of the others, one per kind: with or without a split, with or without a group.
        """
        ...


@dataclass(frozen=True, slots=True)
class FirstItems:
    """A request for only the first items by hash of a table with labels.

    Attributes:
        seed: Seed of the order.
        number: How many are tried; eight times as many if they are not enough.
        enough: The check whether they are.
    """

    seed: int
    number: int
    enough: EnoughCheck


_RankedFile = tuple[float, str, str, SourceFile]


@dataclass(slots=True)
class FirstFiles:
    """The first files by hash of each language.

    Attributes:
        seed: Seed of the order.
        number: How many of each language are kept.
        drop: Called with each file that is dropped.
    """

    seed: int
    number: int
    drop: Callable[[SourceFile], None]
    _by_language: dict[str, list[_RankedFile]] = field(default_factory=dict[str, list[_RankedFile]])
    _dropped_examples: dict[tuple[str, bool, bool], SourceFile] = field(
        default_factory=dict[tuple[str, bool, bool], SourceFile]
    )

    def add(self, file: SourceFile, item_id: str) -> None:
        """Add a file, which is one item."""
        ranked_files = self._by_language.setdefault(file.language, [])
        ranked_files.append((unit_hash(self.seed, item_id), item_id, file.path, file))
        if len(ranked_files) >= 2 * self.number + 2:
            self._drop_surplus(ranked_files)

    def files(self) -> Iterator[SourceFile]:
        """Yield the files kept, and one dropped file per kind."""
        for ranked_files in self._by_language.values():
            self._drop_surplus(ranked_files)
            yield from (file for *_, file in ranked_files)
        yield from self._dropped_examples.values()

    def are_enough(self, items: Sequence[Item], enough: EnoughCheck) -> bool:
        """Return whether the items kept of each language are enough, or all that exist."""
        dropped_paths = {file.path for file in self._dropped_examples.values()}
        return all(
            enough(
                [item for item in items if item.language == language and item.path not in dropped_paths],
                [item for item in items if item.language == language and item.path in dropped_paths],
            )
            for language in {language for language, *_ in self._dropped_examples}
        )

    def _drop_surplus(self, ranked_files: list[_RankedFile]) -> None:
        # By hash, and of copies the one that is chosen first.
        ranked_files.sort(key=lambda entry: entry[:3])
        for *_, file in ranked_files[self.number :]:
            kind = any(label.split for label in file.given), any(label.group for label in file.given)
            if self._dropped_examples.setdefault((file.language, *kind), file) is not file:
                self.drop(file)
        del ranked_files[self.number :]


_BATCH = 10_000


class FileHashes:
    """Content hashes by path; a path is added once."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._new: list[tuple[str, bytes]] = []

    def __len__(self) -> int:
        return len(self._new) + sum(map(len, self._frames))

    def add(self, path: str, content: str) -> None:
        """Add the hash of a file, in hexadecimal digits."""
        self._new.append((path, bytes.fromhex(content)))
        if len(self._new) == _BATCH:
            self._pack()

    def find(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the hashes of those of `paths` that are known."""
        path_set = set(paths)
        if not self._frames:
            return {path: content.hex() for path, content in self._new if path in path_set}
        import polars as pl

        return dict(self._rows(self._to_frame().filter(pl.col("path").is_in(list(path_set)))))

    def corpus_hash(self) -> str:
        """Return the hash of all paths and hashes, independent of their order."""
        if not self._frames:
            return fingerprint_rows((path, content.hex()) for path, content in sorted(self._new))
        return fingerprint_rows(self._rows(self._to_frame().sort("path")))

    def _pack(self) -> None:
        import polars as pl

        schema = {"path": pl.String, "hash": pl.Binary}
        self._frames.append(pl.DataFrame(self._new, schema, orient="row"))
        self._new = []

    def _to_frame(self) -> pl.DataFrame:
        import polars as pl

        self._pack()
        self._frames = [pl.concat(self._frames)]
        return self._frames[0]

    @staticmethod
    def _rows(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
        for part in frame.iter_slices(_BATCH):
            yield from ((path, content.hex()) for path, content in part.rows())
