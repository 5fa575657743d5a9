"""Program tokens of each item: what CuBERT reads (Kanade et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sonde.corpora import Intake, Item, SourceFile
from sonde.corpora.engine.read import items_of
from sonde.languages import facet_of
from sonde.languages.engine.program_tokens import Program, tokenize


class ProgramTokens:
    """A row an item, in the corpus's order: its id and its pieces.

    All pieces of a token but its last end in ``^``.
    """

    name = "program_tokens"
    facet = "program"
    version = "1"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile], *, mode: str = "corrected") -> Iterator[dict[str, Any]]:
        """The rows of the functions of some files; no mode changes them."""
        for file in files:
            for item in items_of(file, "function", Intake()):
                yield self.row(item)

    def row(self, item: Item, *, mode: str = "corrected") -> dict[str, Any]:
        """The row of one item.

        Raises:
            UsageError: The item's language has no program tokens.
        """
        pieces = tokenize(facet_of(item.language, "program", Program), item.text)
        return {"id": item.identifier or item.item_id, "tokens": pieces}


task = ProgramTokens()
