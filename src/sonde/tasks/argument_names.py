"""Arguments that bear the name of a definition in another file of the repository.

CODETOKENIZERS flags an argument as internal by its name alone, whatever is called; its paper mode needs these
spans (quirk ``codetokenizers.argument_names``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set

import polars as pl

from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.tasks._repository import elsewhere, repository_of
from sonde.tasks._task import LABEL_SCHEMA, Repository

_WORD = re.compile(r"\w+")


class ArgumentNames:
    """Labels identifiers that stand directly in an argument list and that another file defines."""

    name = "argument_names"
    version = "1"
    target = "span"
    labels = ("internal",)
    needs_repository = True

    def label(
        self,
        items: Iterable[Item],
        repositories: Mapping[str, Repository],
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
    ) -> dict[str, pl.DataFrame]:
        """Labels of each item in `LABEL_SCHEMA`, by item id.

        Raises:
            InputError: An item's repository is not among ``repositories``.
        """
        return {item.item_id: self._table(item, repository_of(item, repositories)) for item in items}

    def _table(self, item: Item, repository: Repository) -> pl.DataFrame:
        internal = {word for word in _WORD.findall(item.text) if elsewhere(word, item.path, repository)}
        spans = _arguments(item, internal) if internal else []
        rows = [(start, end, "internal", None) for start, end in spans]
        return pl.DataFrame(rows, schema=dict(LABEL_SCHEMA), orient="row")


def _arguments(item: Item, names: set[str]) -> list[tuple[int, int]]:
    tree = LANGUAGES.load(item.language).parse(item.text)
    return [
        (int(tree.start[leaf]), int(tree.end[leaf]))
        for leaf in tree.leaves.tolist()
        if tree.parent[leaf] >= 0
        and tree.kind_name(int(tree.parent[leaf])) == "argument_list"
        and tree.node_text(leaf) in names
    ]


task = ArgumentNames()
