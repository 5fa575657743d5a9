"""Tables of a run by key, and a cache of observations that runs on a machine share.

A table of a run (a part) has a receipt that names its key and its content. It is valid if the receipt names
the requested key and the file still has the content that was written. A kill between file and receipt, a
truncated file or a flipped bit all count as "not there", so that this part is computed again, and nothing
else.

The key of a table covers the model's revision, its device and data type, the inputs, the labels, the options
and every version that can change a result, but no folder or name. What one run has computed on a machine, no
other run computes again: the cache has each table under the same key. It shares a table with the run by a
hard link if the file systems allow it. The least recently used tables are evicted first.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import evict_least_used, get_cache_folder, try_hard_link, write_atomic
from sonde.base.fingerprint import hash_bytes
from sonde.base.frames import to_parquet
from sonde.store.checksums import read_receipt, receipt_path, write_receipt


@dataclass(slots=True)
class PartStore:
    """Tables (parts) in the folder of a run, by relative path and key.

    Attributes:
        root: The folder of the run.
        damaged: Relative paths of parts whose content does not match their receipt.
    """

    root: Path
    damaged: list[str] = field(default_factory=list)

    def path(self, relative: str) -> Path:
        """Return the path of a part."""
        return self.root / relative

    def notes(self, relative: str, key: str) -> dict[str, Any] | None:
        """Return the notes of a valid part; None if the part has to be computed.

        Args:
            relative: Path of the part inside the root.
            key: Fingerprint of everything that can change the part.
        """
        try:
            receipt = read_receipt(self.root, relative)
            if receipt is None or receipt.key != key:
                return None
            if hash_bytes(self.path(relative).read_bytes()) == receipt.content:
                return dict(receipt.notes)
        except (StoreError, OSError):
            pass
        self.damaged.append(relative)
        return None

    def put(
        self,
        relative: str,
        key: str,
        frame: pl.DataFrame,
        notes: Mapping[str, Any],
        *,
        row_group: int | None = None,
    ) -> None:
        """Write a part, then its receipt.

        Args:
            relative: Path of the part inside the root.
            key: Fingerprint of everything that can change the part.
            frame: The table.
            notes: Notes that are stored with the part, see `notes`.
            row_group: Rows per row group; small values make reading single rows fast.

        Raises:
            StoreError: The disk is full or not writable; no other part is touched.
        """
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False, row_group_size=row_group)
        self._write(relative, key, buffer.getvalue(), notes)

    def put_tables(
        self, relative: str, key: str, tables: Iterable[pl.DataFrame], notes: Mapping[str, Any]
    ) -> None:
        """Write an iterable of small tables as one part, then its receipt.

        Raises:
            StoreError: See `put`.
        """
        self._write(relative, key, to_parquet(tables), notes)

    def _write(self, relative: str, key: str, content: bytes, notes: Mapping[str, Any]) -> None:
        write_atomic(self.path(relative), content)
        write_receipt(self.root, relative, content, key, notes)

    def remove_unplanned_parts(self, folder: str, relatives: set[str]) -> None:
        """Remove the parts in a folder that are not in `relatives`, with their receipts."""
        for path in sorted(self.path(folder).glob("*.parquet")):
            relative = path.relative_to(self.root).as_posix()
            if relative not in relatives:
                path.unlink(missing_ok=True)
                receipt_path(self.root, relative).unlink(missing_ok=True)

    def put_unfinished(
        self, relative: str, key: str, index: int, frame: pl.DataFrame, notes: Mapping[str, Any]
    ) -> None:
        """Write some rows of a part that is not complete yet, so that a kill loses nothing of them.

        Args:
            relative: Path of the part inside the root.
            key: Key of the part.
            index: Number of the piece: 0 for the first rows of the part, then one more each time.
            frame: The rows.
            notes: Notes that are stored with the rows, see `read_unfinished`.

        Raises:
            StoreError: See `put`.
        """
        self.put(_unfinished_path(relative, index), key, frame, notes)

    def read_unfinished(self, relative: str, key: str) -> list[tuple[pl.DataFrame, dict[str, Any]]]:
        """Return the rows that were written of a part, piece by piece with their notes.

        The first piece that is missing or damaged, or was written under another key, ends them.
        """
        pieces: list[tuple[pl.DataFrame, dict[str, Any]]] = []
        while self.path(piece := _unfinished_path(relative, len(pieces))).is_file():
            # What is damaged is read again, as what was not written: nobody has to be told.
            try:
                receipt, content = read_receipt(self.root, piece), self.path(piece).read_bytes()
            except (StoreError, OSError):
                break
            if receipt is None or receipt.key != key or hash_bytes(content) != receipt.content:
                break
            pieces.append((pl.read_parquet(io.BytesIO(content)), dict(receipt.notes)))
        return pieces

    def remove_unfinished(self, relative: str = "") -> None:
        """Remove the pieces of a part that is complete; by default those of all parts."""
        folder = _unfinished_folder(relative)
        receipts = receipt_path(self.root, f"{folder}/x").parent
        for path in (self.path(folder), receipts):
            shutil.rmtree(path, ignore_errors=True)


UNFINISHED_FOLDER = "unfinished"
"""Folder in a run for the rows of parts that are being written; empty or absent in a finished run."""


def _unfinished_folder(relative: str) -> str:
    return f"{UNFINISHED_FOLDER}/{relative.removesuffix('.parquet')}".rstrip("/")


def _unfinished_path(relative: str, index: int) -> str:
    return f"{_unfinished_folder(relative)}/{index:04}.parquet"


OBSERVATIONS_FOLDER = "observations"


SIZE_ENV = "SONDE_CACHE_SIZE"
"""Environment variable with the maximum size in gigabytes; 0 disables the cache."""


CACHED_NOTE = "cached"
"""Key of the note on tables that were taken from the cache."""


_DEFAULT_GIGABYTES = 10.0


_TABLE_SUFFIX, _NOTES_SUFFIX = ".parquet", ".json"


@dataclass(frozen=True, slots=True)
class TableCache:
    """Tables by key, in the cache folder of the user.

    Attributes:
        root: The folder.
        maximum: Maximum size in bytes; 0 disables the cache.
    """

    root: Path
    maximum: int

    @classmethod
    def without_cache(cls) -> TableCache:
        """Create a disabled cache, which stores and returns nothing."""
        return cls(get_cache_folder(OBSERVATIONS_FOLDER), 0)

    @classmethod
    def from_environment(cls) -> TableCache:
        """Create the cache with the size that the environment sets.

        Raises:
            UsageError: The size is no number.
        """
        try:
            maximum = int(max(0.0, float(os.environ.get(SIZE_ENV) or _DEFAULT_GIGABYTES)) * 1e9)
        except (ValueError, OverflowError):
            raise UsageError(
                f"{SIZE_ENV}={os.environ[SIZE_ENV]!r} is not a number of gigabytes; give one, or "
                "0 for no cache"
            ) from None
        return cls(get_cache_folder(OBSERVATIONS_FOLDER), maximum)

    def take(self, store: PartStore, relative: str, key: str) -> dict[str, Any] | None:
        """Copy or link a table into a run, if it is in the cache and intact.

        Args:
            store: The run's tables.
            relative: Path of the table in the run.
            key: Key of the table.

        Returns:
            The notes of the table; None if it has to be computed.

        Raises:
            StoreError: The run's folder cannot be written.
        """
        table, notes_path = self._find_paths(key)
        if not self.maximum:
            return None
        try:
            entry, content = json.loads(notes_path.read_text(encoding="utf-8")), table.read_bytes()
            if entry["key"] != key or hash_bytes(content) != entry["content"]:
                return None
            notes = dict(entry["notes"])
            # The modification time marks the last use, for `trim`.
            os.utime(table)
        except (OSError, ValueError, LookupError, TypeError):
            return None
        target = store.path(relative)
        # Another process may have written other bytes since they were read.
        if not try_hard_link(table, target) or target.read_bytes() != content:
            write_atomic(target, content)
        notes[CACHED_NOTE] = True
        write_receipt(store.root, relative, content, key, notes)
        return notes

    def __contains__(self, key: str) -> bool:
        """Return whether a table is there; whether it is intact is checked when it is taken."""
        return bool(self.maximum) and all(path.is_file() for path in self._find_paths(key))

    def add(self, store: PartStore, relative: str) -> None:
        """Add a table that a run has just written; failures to write are ignored."""
        receipt = read_receipt(store.root, relative)
        if not self.maximum or receipt is None:
            return
        table, notes_path = self._find_paths(receipt.key)
        entry = {"key": receipt.key, "content": receipt.content, "notes": dict(receipt.notes)}
        with contextlib.suppress(OSError, StoreError):
            if not try_hard_link(store.path(relative), table):
                write_atomic(table, store.path(relative).read_bytes())
            write_atomic(notes_path, json.dumps(entry))

    def trim(self) -> None:
        """Remove the least recently used tables until the cache is within its maximum size."""
        if self.maximum:
            with contextlib.suppress(OSError):
                evict_least_used(self.root.rglob(f"*{_TABLE_SUFFIX}"), self.maximum, _NOTES_SUFFIX)

    def _find_paths(self, key: str) -> tuple[Path, Path]:
        table = self.root / key[:2] / f"{key}{_TABLE_SUFFIX}"
        return table, table.with_suffix(_NOTES_SUFFIX)
