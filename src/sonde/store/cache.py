"""A cache of observations across runs: what one run has read on a machine, no other reads again.

Tables lie in the cache under the key that they have in a run, which knows the model's revision, its device
and type, the inputs, the labels, the options and every version that can change a number, and nothing of a
folder or a name. A table is shared with the run by a hard link where the file systems allow it. What was used
longest ago goes first.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import cache_folder, last_use, linked, write_atomic
from sonde.base.fingerprint import hash_bytes
from sonde.base.frames import parquet_of
from sonde.store.checksums import read_receipt, receipt_path, write_receipt


@dataclass(slots=True)
class PartStore:
    """Tables under one folder, looked up by relative path and key.

    Attributes:
        root: The folder of the run.
        damaged: Relative paths of parts that had a receipt but not its content.
    """

    root: Path
    damaged: list[str] = field(default_factory=list)

    def path(self, relative: str) -> Path:
        """Where a part lies."""
        return self.root / relative

    def notes(self, relative: str, key: str) -> dict[str, Any] | None:
        """The notes stored with a valid part, or None where the part has to be computed.

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
            notes: What `notes` gives for it.
            row_group: Rows that are read together; few where readers want some rows in the middle.

        Raises:
            StoreError: The disk is full or not writable; no other part is touched.
        """
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False, row_group_size=row_group)
        self._write(relative, key, buffer.getvalue(), notes)

    def put_together(
        self, relative: str, key: str, tables: Iterable[pl.DataFrame], notes: Mapping[str, Any]
    ) -> None:
        """Write a part of many small tables, which are taken as they are written, then its receipt.

        Raises:
            StoreError: See `put`.
        """
        self._write(relative, key, parquet_of(tables), notes)

    def _write(self, relative: str, key: str, content: bytes, notes: Mapping[str, Any]) -> None:
        write_atomic(self.path(relative), content)
        write_receipt(self.root, relative, content, key, notes)

    def keep_only(self, folder: str, relatives: set[str]) -> None:
        """Remove the parts in a folder that the present plan does not name, with their receipts."""
        for path in sorted(self.path(folder).glob("*.parquet")):
            relative = path.relative_to(self.root).as_posix()
            if relative not in relatives:
                path.unlink(missing_ok=True)
                receipt_path(self.root, relative).unlink(missing_ok=True)


FOLDER = "observations"


SIZE = "SONDE_CACHE_SIZE"
"""Variable of the environment with the bound in gigabytes; 0 switches the cache off."""


CACHED = "cached"
"""A note on tables that were taken from here."""


_GIGABYTES = 10.0


_TABLE, _ABOUT = ".parquet", ".json"


@dataclass(frozen=True, slots=True)
class TableCache:
    """Tables by key, in the cache folder of this machine's user.

    Attributes:
        root: The folder.
        most: Bytes that it may hold.
    """

    root: Path
    most: int

    @classmethod
    def off(cls) -> TableCache:
        """One that keeps nothing and gives nothing."""
        return cls(cache_folder(FOLDER), 0)

    @classmethod
    def of_environment(cls) -> TableCache:
        """The cache that the environment describes.

        Raises:
            UsageError: The bound is no number.
        """
        try:
            most = int(max(0.0, float(os.environ.get(SIZE) or _GIGABYTES)) * 1e9)
        except (ValueError, OverflowError):
            raise UsageError(
                f"{SIZE}={os.environ[SIZE]!r} is no number of gigabytes; give one, or 0 for no cache"
            ) from None
        return cls(cache_folder(FOLDER), most)

    def take(self, store: PartStore, relative: str, key: str) -> dict[str, Any] | None:
        """Put a table into a run, if it is here and whole.

        Args:
            store: The run's tables.
            relative: Where it goes in the run.
            key: What it is known by.

        Returns:
            The notes on it; None where it has to be computed.

        Raises:
            StoreError: The run's folder cannot be written.
        """
        table, about = self._paths(key)
        if not self.most:
            return None
        try:
            known, content = json.loads(about.read_text(encoding="utf-8")), table.read_bytes()
            if known["key"] != key or hash_bytes(content) != known["content"]:
                return None
            notes = dict(known["notes"])
            # What is used now goes last when room is needed.
            os.utime(table)
        except (OSError, ValueError, LookupError, TypeError):
            return None
        target = store.path(relative)
        # Another process may have put other bytes there since they were read.
        if not linked(table, target) or target.read_bytes() != content:
            write_atomic(target, content)
        notes[CACHED] = True
        write_receipt(store.root, relative, content, key, notes)
        return notes

    def add(self, store: PartStore, relative: str) -> None:
        """Keep a table that a run has just written; a cache that cannot be written keeps nothing."""
        receipt = read_receipt(store.root, relative)
        if not self.most or receipt is None:
            return
        table, about = self._paths(receipt.key)
        known = {"key": receipt.key, "content": receipt.content, "notes": dict(receipt.notes)}
        with contextlib.suppress(OSError, StoreError):
            if not linked(store.path(relative), table):
                write_atomic(table, store.path(relative).read_bytes())
            write_atomic(about, json.dumps(known))

    def trim(self) -> None:
        """Remove what was used longest ago until the rest is within the bound, as far as files allow it."""
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            tables = list(self.root.rglob(f"*{_TABLE}")) if self.most else []
            for table in tables:
                with contextlib.suppress(FileNotFoundError):
                    held = table.stat()
                    found.append((last_use(held), held.st_size, table))
        size = sum(one for _, one, _ in found)
        for _, one, table in sorted(found):
            if size <= self.most:
                return
            with contextlib.suppress(OSError):
                # Another process may have been faster.
                table.unlink(missing_ok=True)
                size -= one
                table.with_suffix(_ABOUT).unlink(missing_ok=True)

    def _paths(self, key: str) -> tuple[Path, Path]:
        table = self.root / key[:2] / f"{key}{_TABLE}"
        return table, table.with_suffix(_ABOUT)
