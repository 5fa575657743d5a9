"""Which language-neutral constructs a span of code is: loops, conditions, calls, docstrings and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import polars as pl

from sonde.corpora import Item
from sonde.languages import CONSTRUCT_LABELS, LANGUAGES
from sonde.tasks._task import LABEL_SCHEMA, Repository


class Constructs:
    """Labels every construct of an item; spans nest and may overlap."""

    name = "constructs"
    version = "1"
    target = "span"
    labels = CONSTRUCT_LABELS
    needs_repository = False

    def label(
        self,
        items: Iterable[Item],
        repositories: Mapping[str, Repository],
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
    ) -> dict[str, pl.DataFrame]:
        """Labels of each item in `LABEL_SCHEMA`, by item id; ``repositories`` is not looked at."""
        return {item.item_id: _table(item) for item in items}


def _table(item: Item) -> pl.DataFrame:
    language = LANGUAGES.load(item.language)
    found = language.constructs(language.parse(item.text))
    rows = [(construct.start, construct.end, construct.label, None) for construct in found]
    return pl.DataFrame(rows, schema=dict(LABEL_SCHEMA), orient="row")


task = Constructs()
