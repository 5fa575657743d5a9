"""Variables of Python, see `flow.scm`: a function's names belong to all of it."""

from __future__ import annotations

from sonde.languages._flow import FlowOf
from sonde.languages._treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> FlowOf:
    """Python's variables."""
    return FlowOf(language, ordered=False)
