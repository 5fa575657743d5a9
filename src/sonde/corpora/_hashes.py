"""The content hash of every file of a corpus, of which there may be millions.

A corpus of few files is held as it comes, so that it needs no table library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sonde.base.fingerprint import fingerprint_rows

if TYPE_CHECKING:
    import polars as pl

_BATCH = 10_000


class FileHashes:
    """Path to content hash; a path is added once."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._new: list[tuple[str, bytes]] = []

    def __len__(self) -> int:
        return len(self._new) + sum(map(len, self._frames))

    def add(self, path: str, content: str) -> None:
        """Take down the hash of a file, in hexadecimal digits."""
        self._new.append((path, bytes.fromhex(content)))
        if len(self._new) == _BATCH:
            self._pack()

    def of(self, paths: Iterable[str]) -> dict[str, str]:
        """The hashes of some files, as far as they are known."""
        wanted = set(paths)
        if not self._frames:
            return {path: content.hex() for path, content in self._new if path in wanted}
        import polars as pl

        return dict(self._rows(self._whole().filter(pl.col("path").is_in(list(wanted)))))

    def corpus_hash(self) -> str:
        """Hash of all paths and hashes, in whatever order they came."""
        if not self._frames:
            return fingerprint_rows((path, content.hex()) for path, content in sorted(self._new))
        return fingerprint_rows(self._rows(self._whole().sort("path")))

    def _pack(self) -> None:
        import polars as pl

        schema = {"path": pl.String, "hash": pl.Binary}
        self._frames.append(pl.DataFrame(self._new, schema, orient="row"))
        self._new = []

    def _whole(self) -> pl.DataFrame:
        import polars as pl

        self._pack()
        self._frames = [pl.concat(self._frames)]
        return self._frames[0]

    @staticmethod
    def _rows(frame: pl.DataFrame) -> Iterator[tuple[str, str]]:
        for part in frame.iter_slices(_BATCH):
            yield from ((path, content.hex()) for path, content in part.rows())
