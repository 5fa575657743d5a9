"""Program tokens of each item, as CuBERT reads them (Kanade et al. 2020, section 3.3)."""

from __future__ import annotations

from typing import Any

from sonde.corpora import Item
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize
from sonde.tasks.engine.task import RowTask


class ProgramTokens(RowTask):
    """One row per item, in the corpus's order: its id and its pieces.

    All pieces of a token but its last end in ``^``.
    """

    name = "program_tokens"
    facet = "program"

    def row(self, item: Item) -> dict[str, Any]:
        """Return the row of one item.

        Raises:
            UsageError: The item's language has no program tokens.
        """
        pieces = tokenize(get_facet(item.language, "program", ProgramLexer), item.text)
        return {"id": item.identifier or item.item_id, "tokens": pieces}


task = ProgramTokens()
