"""Whole syntax trees as three rows of values, which probes decode (AST-Probe; option `structural`).

The probe lens reads the same trees if its option ``structural`` is above 0.
"""

from __future__ import annotations

from typing import Any

from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.languages.engine.tree import binarise
from sonde.tasks.engine.task import RowTask

SYNONYMS = ("structural probe", "AST probe", "parse tree", "syntax tree")


class WholeTrees(RowTask):
    """One row per item, in the corpus's order: its id, its code tokens and its binarised tree.

    ``distance`` is the height of the lowest node around two neighbouring tokens, ``constituent`` that node's
    labels, ``unary`` the labels of the nodes that hold a token alone.
    """

    name = "whole_trees"
    facet = "tokens"

    def row(self, item: Item) -> dict[str, Any]:
        """Return the row of one item."""
        language = LANGUAGES.load(item.language)
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        binary = binarise(tree, tokens)
        return {
            "id": item.identifier or item.item_id,
            "tokens": [
                item.text[start:end]
                for start, end in zip(tokens.start.tolist(), tokens.end.tolist(), strict=True)
            ],
            "distance": binary.distance.tolist(),
            "constituent": [list(kinds) for kinds in binary.labels],
            "unary": [list(kinds) for kinds in binary.unary],
        }


task = WholeTrees()
