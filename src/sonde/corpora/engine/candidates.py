"""Candidate items: attributes for the selection, the rest compressed; and the first items by hash.

A few thousand of some million functions are selected, and most of the others are never looked into.

Only the first items of a table by hash are read if labels are sampled by hash and a few of many rows are
enough.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sonde.base.fingerprint import unit_hash
from sonde.corpora.engine.corpus import Given, Item, SourceFile, Tag


@dataclass(slots=True)
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
    _packed: bytes = field(repr=False)

    @classmethod
    def from_item(cls, item: Item) -> CandidateItem:
        """Pack an item."""
        attributes = {name: getattr(item, name) for name in _SELECTION_FIELDS}
        fields = {name: getattr(item, name) for name in _PACKED_FIELDS}
        return cls(
            **attributes, _packed=zlib.compress(json.dumps(fields, default=dataclasses.asdict).encode(), 1)
        )

    @property
    def text(self) -> str:
        """Return the code."""
        return self._unpack()["text"]

    def item(self) -> Item:
        """Return the item with the attributes as they are here."""
        fields = self._unpack()
        fields |= {name: getattr(self, name) for name in _SELECTION_FIELDS}
        for name, kind in (("tags", Tag), ("given", Given)):
            fields[name] = tuple(kind(**values) for values in fields[name])
        fields["cuts"] = tuple(fields["cuts"])
        # A hundred thousand items have a few units and licences.
        fields |= {name: sys.intern(fields[name]) for name in ("unit", "licence")}
        return Item(**fields)

    def _unpack(self) -> dict[str, Any]:
        return json.loads(zlib.decompress(self._packed))


_SELECTION_FIELDS = tuple(
    attribute.name for attribute in dataclasses.fields(CandidateItem) if not attribute.name.startswith("_")
)


_PACKED_FIELDS = tuple(
    attribute.name for attribute in dataclasses.fields(Item) if attribute.name not in _SELECTION_FIELDS
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
