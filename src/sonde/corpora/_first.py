"""The first items of a table by hash, where labels are drawn by hash and a few rows of many are enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sonde.base.fingerprint import unit_hash
from sonde.corpora._corpus import Item, SourceFile


class Enough(Protocol):
    """Says whether the first items of a language will do."""

    def __call__(self, items: Sequence[Item], beyond: Sequence[Item], /) -> bool:
        """Whether they will.

        Args:
            items: The first items in one language.
            beyond: Some of the others, one a kind: with a split or a group, and without.
        """
        ...


@dataclass(frozen=True, slots=True)
class FirstItems:
    """Asks for the first items by hash alone, where a corpus is a table with labels.

    Attributes:
        seed: Seed of the order.
        number: How many are tried; eight times as many where they are not enough.
        enough: Whether they are.
    """

    seed: int
    number: int
    enough: Enough


_Ranked = tuple[float, str, str, SourceFile]


@dataclass(slots=True)
class FirstFiles:
    """Those of the files shown that come first by hash, language by language.

    Attributes:
        seed: Seed of the order.
        number: How many of each language are kept.
        drop: Is told of each file that is not.
    """

    seed: int
    number: int
    drop: Callable[[SourceFile], None]
    _kept: dict[str, list[_Ranked]] = field(default_factory=dict[str, list[_Ranked]])
    _beyond: dict[tuple[str, bool, bool], SourceFile] = field(
        default_factory=dict[tuple[str, bool, bool], SourceFile]
    )

    def add(self, file: SourceFile, item_id: str) -> None:
        """Show a file, which is one item."""
        kept = self._kept.setdefault(file.language, [])
        kept.append((unit_hash(self.seed, item_id), item_id, file.path, file))
        if len(kept) >= 2 * self.number + 2:
            self._cut(kept)

    def files(self) -> Iterator[SourceFile]:
        """The files kept, and of those dropped one a kind."""
        for kept in self._kept.values():
            self._cut(kept)
            yield from (file for *_, file in kept)
        yield from self._beyond.values()

    def are_enough(self, items: Sequence[Item], enough: Enough) -> bool:
        """Whether the items kept of each language are enough, or all that there are."""
        beyond = {file.path for file in self._beyond.values()}
        return all(
            enough(
                [item for item in items if item.language == language and item.path not in beyond],
                [item for item in items if item.language == language and item.path in beyond],
            )
            for language in {language for language, *_ in self._beyond}
        )

    def _cut(self, kept: list[_Ranked]) -> None:
        # By hash, and of copies the one that is chosen first.
        kept.sort(key=lambda ranked: ranked[:3])
        for *_, file in kept[self.number :]:
            kind = any(one.split for one in file.given), any(one.group for one in file.given)
            if self._beyond.setdefault((file.language, *kind), file) is not file:
                self.drop(file)
        del kept[self.number :]
