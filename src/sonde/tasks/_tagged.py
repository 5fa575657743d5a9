"""Tasks about single tokens: a row a token, with its class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from types import MappingProxyType

from sonde.corpora import Item, item_id
from sonde.languages import facet_of
from sonde.languages._tagging import Tagged, Tagging
from sonde.tasks._published import as_asked
from sonde.tasks._task import ItemLabels, LabelRow, Repository


class TokenClasses(ItemLabels):
    """A task about the class of tokens. A subclass gives ``name``, ``labels`` and `tags`."""

    name: str
    labels: tuple[str, ...]
    version = "1"
    target = "span"
    needs_repository = False
    needs_imports = False
    facet = "tagging"
    quirks: Mapping[str, str] = MappingProxyType({})

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: Set[str]
    ) -> list[LabelRow]:
        """One row a token that has a class.

        Labels that the item brings for this task are taken as they are.
        """
        given = [(one.start, one.end, one.label) for one in item.given if one.task.lower() == self.name]
        known = repositories.get(item.repository)
        imports = known.imports.get(item.path, "") if known is not None else ""
        found = given or as_asked(self, mode, quirks).tags(item, imports)
        return [(start, end, label, None) for start, end, label in found]

    def beside(
        self, items: Iterable[Item], repositories: Mapping[str, Repository]
    ) -> Iterator[tuple[Item, Item]]:
        """What else to draw tokens from: the import statements of the items' files, as own items.

        Functions hardly ever name a package, and in Java they hold no import. A task that knows nothing of
        the files around has nothing beside.

        Args:
            items: The functions.
            repositories: The files around.

        Yields:
            An item, and what its file imports; each file once.
        """
        seen: set[tuple[str, str]] = set()
        for item in items:
            known = repositories.get(item.repository) if self.needs_imports else None
            text = known.imports.get(item.path, "") if known is not None else ""
            if text and (item.repository, item.path) not in seen:
                seen.add((item.repository, item.path))
                own = item_id(text, item.language, "imports")
                yield (
                    item,
                    replace(
                        item,
                        item_id=own,
                        identifier=own,
                        text=text,
                        unit="imports",
                        name="imports",
                        offset=0,
                        docstring="",
                        tags=(),
                        given=(),
                    ),
                )

    @abstractmethod
    def tags(self, item: Item, imports: str) -> tuple[Tagged, ...]:
        """The tokens with their classes; ``imports`` are the import statements of the item's file."""


def tagging(language: str) -> Tagging:
    """The classes of tokens of a language."""
    return facet_of(language, "tagging", Tagging)
