"""Parts of a result: tables on disk, each with a receipt that says for which key and with which content.

A part is valid when its receipt names the key asked for and the file still has the content that was
written. A kill between file and receipt, a truncated file or a flipped bit all read as "not there", so the
part is computed again and nothing else is.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import hash_bytes
from sonde.base.frames import parquet_of
from sonde.store.receipts import read_receipt, receipt_path, write_receipt


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
