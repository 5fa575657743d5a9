"""Language-neutral constructs that a span of code forms: loops, conditions, calls, docstrings and others.

A data set has the constructs that occur often enough, each in several spellings. No language has all of them,
code that parses has no error node, and a jump is rarely written in more than two ways.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.corpora import Item
from sonde.languages import CONSTRUCT_LABELS, LANGUAGES
from sonde.tasks.engine.task import ItemLabels, LabelRow, Repository


class Constructs(ItemLabels):
    """Labels every construct of an item; spans nest and may overlap.

    Attributes:
        needs_every_class: Whether a data set that lacks a class is refused.
    """

    name = "constructs"
    target = "span"
    labels = CONSTRUCT_LABELS
    needs_every_class = False

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row per construct."""
        language = LANGUAGES.load(item.language)
        constructs = language.constructs(language.parse(item.text))
        return [(construct.start, construct.end, construct.label, None) for construct in constructs]


task = Constructs()
