"""Where CuBERT's bugs are put into Python: `bugs.scm` and `bugs.toml`."""

from __future__ import annotations

from sonde.languages._bugs import QueryBugs
from sonde.languages._treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> QueryBugs:
    """The facet ``bugs``."""
    return QueryBugs(language, __name__.rpartition(".")[0])
