"""Classes of names in Ruby: a constant is a class by convention, a name after a dot is a method.

The names of modules are those of name spaces: before `::`, and after `module`.
"""

from __future__ import annotations

from sonde.languages.engine.tagging import TaggingOf, like_a_class
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage


class RubyTagging(TaggingOf):
    """Ruby's `Tagger`."""

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Classify operators and setters as methods; a constant in capitals only holds a value."""
        leaf = listed[place]
        if leaf.kind in ("operator", "setter") or (role == "attribute" and leaf.parent == "call"):
            return "IDM"
        if leaf.kind == "constant" and role not in ("call", "function"):
            return "IDC" if role in ("class", "type") or like_a_class(leaf.text) else "IDV"
        return super().named(listed, place, role)


def facet(language: TreeSitterLanguage) -> RubyTagging:
    """Return Ruby's tagger."""
    return RubyTagging(language)
