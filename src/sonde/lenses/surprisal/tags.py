"""Tags of subwords as a paper published them: a function of what is aligned, known to no lens by name."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from sonde.alignment import Subwords
from sonde.base.outside import published
from sonde.languages import Tree

GROUP = "sonde.lenses.published"


class PublishedTags(Protocol):
    """Tags of subwords as a paper published them."""

    @property
    def quirks(self) -> Mapping[str, str]:
        """How they differ, by name."""
        ...

    def tags(self, subwords: Subwords, tree: Tree, quirks: Set[str]) -> tuple[str, ...]:
        """The tag of each subword with some quirks on."""
        ...


def published_tags() -> PublishedTags | None:
    """The tags that a paper published; None where nothing is registered."""
    found: PublishedTags | None = published(GROUP, "surprisal")
    return found
