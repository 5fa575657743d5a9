"""Arguments that have the name of a definition in another file of the repository.

CODETOKENIZERS flags an argument as internal by its name only, whatever is called; in paper mode the lens
`surprisal` does so with these spans.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.tasks.engine.task import ItemLabels, LabelRow, Repository, get_repository, is_defined_in_other_file

_WORD = re.compile(r"\w+")


class ArgumentNames(ItemLabels):
    """Labels identifiers that stand directly in an argument list and that another file defines."""

    name = "argument_names"
    target = "span"
    labels = ("internal",)
    needs_repository = True

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[LabelRow]:
        """Return one row per argument.

        Raises:
            InputError: The item's repository is not among ``repositories``.
        """
        repository = get_repository(item, repositories)
        internal = {
            word for word in _WORD.findall(item.text) if is_defined_in_other_file(word, item.path, repository)
        }
        spans = _arguments(item, internal) if internal else []
        return [(start, end, "internal", None) for start, end in spans]


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
