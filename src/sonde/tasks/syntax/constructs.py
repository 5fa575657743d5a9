"""Which language-neutral constructs a span of code is: loops, conditions, calls, docstrings and the like."""

from __future__ import annotations

from collections.abc import Mapping, Set

from sonde.corpora import Item
from sonde.languages import CONSTRUCT_LABELS, LANGUAGES
from sonde.tasks._task import ItemLabels, LabelRow, Repository


class Constructs(ItemLabels):
    """Labels every construct of an item; spans nest and may overlap."""

    name = "constructs"
    version = "1"
    target = "span"
    labels = CONSTRUCT_LABELS
    needs_repository = False

    def label_rows(
        self, item: Item, repositories: Mapping[str, Repository], *, mode: str, quirks: Set[str]
    ) -> list[LabelRow]:
        """One row a construct."""
        language = LANGUAGES.load(item.language)
        found = language.constructs(language.parse(item.text))
        return [(construct.start, construct.end, construct.label, None) for construct in found]


task = Constructs()
