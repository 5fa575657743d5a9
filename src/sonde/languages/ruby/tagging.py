"""What a name names in Ruby: a constant is a class by convention, what stands behind a dot is a method.

The names of modules are those of name spaces: what stands before `::`, and what `module` opens.
"""

from __future__ import annotations

from sonde.languages.engine.tagging import TaggingOf, like_a_class
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage


class RubyTagging(TaggingOf):
    """Ruby's `Tagging`."""

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Operators and setters are methods; a constant written in capitals alone holds a value."""
        leaf = listed[place]
        if leaf.kind in ("operator", "setter") or (role == "attribute" and leaf.parent == "call"):
            return "IDM"
        if leaf.kind == "constant" and role not in ("call", "function"):
            return "IDC" if role in ("class", "type") or like_a_class(leaf.text) else "IDV"
        return super().named(listed, place, role)


def facet(language: TreeSitterLanguage) -> RubyTagging:
    """Ruby's classes of tokens."""
    return RubyTagging(language)
