"""Program tokens of each item: what CuBERT reads (Kanade et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sonde.corpora import Item, SkipCounter, SourceFile
from sonde.corpora.engine.read import extract_items
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize


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
            for item in extract_items(file, "function", SkipCounter()):
                yield self.row(item)

    def row(self, item: Item, *, mode: str = "corrected") -> dict[str, Any]:
        """The row of one item.

        Raises:
            UsageError: The item's language has no program tokens.
        """
        pieces = tokenize(get_facet(item.language, "program", ProgramLexer), item.text)
        return {"id": item.identifier or item.item_id, "tokens": pieces}


task = ProgramTokens()
