"""Places of Java code where one thing may stand for another: `edits.scm` and `edits.toml`."""

from __future__ import annotations

from sonde.languages._edits import QueryEdits
from sonde.languages._treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> QueryEdits:
    """The facet ``edits``."""
    return QueryEdits(language, __name__.rpartition(".")[0])
