"""Which words of a program are related by its syntax, as in ``If:if->test`` or ``Call:func->args``.

The 44 relations of Python and 39 of Java of "Benchmarking Language Models for Code Syntax Understanding".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import polars as pl

from sonde.corpora import Item
from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.relations import Delimiters, Relations
from sonde.tasks.engine.relation_rows import TASK, relation_rows
from sonde.tasks.engine.task import Repository

NEWLINES = "codesyntax.newlines"
NO_SEMICOLONS = "codesyntax.no_semicolons"


class SyntaxRelations:
    """Labels the head of every relation, with its dependent beside it; heads and dependents may overlap.

    The ablations of the paper can be named with the quirks: ``codesyntax.newlines`` lets dependents take in
    the newline behind them, ``codesyntax.no_semicolons`` ends them before their ``;``.
    """

    name = TASK
    facet = "relations"
    version = "1"
    target = "relation"
    needs_repository = False
    ablations: Mapping[str, str] = {
        NEWLINES: "dependents take in the newline behind them",
        NO_SEMICOLONS: "dependents end before their semicolon",
    }

    @property
    def quirks(self) -> Mapping[str, str]:
        """The quirks of the published labellers, of all languages."""
        languages = (name for name in LANGUAGES.names() if has_facet(name, "relations"))
        found: dict[str, str] = {}
        for name in languages:
            found |= get_facet(name, "relations", Relations).quirks
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The relations of all languages."""
        languages = (name for name in LANGUAGES.names() if has_facet(name, "relations"))
        found = {
            label for name in languages for label in get_facet(name, "relations", Relations).relation_types
        }
        return tuple(sorted(found))

    def label(
        self,
        items: Iterable[Item],
        repositories: Mapping[str, Repository],
        *,
        mode: str = "corrected",
        quirks: Set[str] = frozenset(),
    ) -> dict[str, pl.DataFrame]:
        """Relations of each item, by item id; ``repositories`` is not looked at.

        Columns are those of `sonde.tasks.engine.relation_rows.RELATION_SCHEMA`.

        Raises:
            UsageError: An item's language has no relations.
        """
        delimiters = Delimiters(newlines=NEWLINES in quirks, semicolons=NO_SEMICOLONS not in quirks)
        return {
            item.item_id: relation_rows(item, mode=mode, quirks=quirks, delimiters=delimiters)
            for item in items
        }


task = SyntaxRelations()
