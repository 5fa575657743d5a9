"""Items that may be chosen: in memory what the choice asks of all of them, on disk what they say.

Of some million functions a few thousand are chosen, and of the others most are never looked into.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

from sonde.base.errors import StoreError
from sonde.corpora._corpus import Given, Item, Tag

_IN_MEMORY = 64_000_000
"""Bytes beyond which texts go to a temporary file, which lies where `tempfile` says (``TMPDIR``)."""


class TextFile:
    """A temporary file of what items say, in memory as long as it is small."""

    def __init__(self) -> None:
        self._handle = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - `close` closes it
        self._size = 0

    def close(self) -> None:
        """Remove it."""
        self._handle.close()

    def add(self, item: Item) -> CandidateItem:
        """Write down an item.

        Raises:
            StoreError: The disk is full.
        """
        said = {name: value for name in _ON_DISK if (value := getattr(item, name)) or name == "text"}
        line = json.dumps(said, default=dataclasses.asdict).encode()
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
        asked = {name: getattr(item, name) for name in _ASKED}
        return CandidateItem(**asked, _texts=self, _begin=begin, _length=len(line))

    def read(self, begin: int, length: int) -> dict[str, Any]:
        """What was written there."""
        self._handle.seek(begin)
        return json.loads(self._handle.read(length))


@dataclass(slots=True, kw_only=True)
class CandidateItem:
    """An item that may be chosen, with the attributes of `Item` that the choice asks for."""

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
        """The code, read from the disk."""
        return self._said()["text"]

    def item(self) -> Item:
        """The item as it was, but for what has been changed here."""
        said = self._said()
        for name, kind in (("tags", Tag), ("given", Given)):
            said[name] = tuple(kind(**one) for one in said.get(name, ()))
        said["cuts"] = tuple(said.get("cuts", ()))
        said |= {name: getattr(self, name) for name in _ASKED}
        # A hundred thousand items have a few units and licences, and most no identifier of their own.
        said |= {name: sys.intern(said[name]) for name in ("unit", "licence") if name in said}
        if said.get("identifier") == self.item_id:
            said["identifier"] = self.item_id
        return Item(**said)

    def _said(self) -> dict[str, Any]:
        return self._texts.read(self._begin, self._length)


_ASKED = tuple(one.name for one in dataclasses.fields(CandidateItem) if not one.name.startswith("_"))
_ON_DISK = tuple(one.name for one in dataclasses.fields(Item) if one.name not in _ASKED)
