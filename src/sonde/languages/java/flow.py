"""Variables of Java, see `flow.scm`: a name means the innermost declaration before it."""

from __future__ import annotations

from sonde.languages._flow import FlowOf
from sonde.languages._treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> FlowOf:
    """Java's variables."""
    return FlowOf(language, ordered=True)
