"""Classes of names in Ruby: a constant is a class by convention, a name after a dot is a method.

The names of modules are those of name spaces: before `::`, and after ``module``.
"""

from __future__ import annotations

from sonde.languages.engine.tagging import Tagger, is_class_name
from sonde.languages.engine.tokens import Leaf


class RubyTagger(Tagger):
    """Ruby's `sonde.languages.engine.tagging.Tagger`."""

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Classify operators and setters as methods; a constant in capitals only holds a value."""
        leaf = leaves[index]
        if leaf.kind in ("operator", "setter") or (role == "attribute" and leaf.parent == "call"):
            return "IDM"
        if leaf.kind == "constant" and role not in ("call", "function"):
            return "IDC" if role in ("class", "type") or is_class_name(leaf.text) else "IDV"
        return super().classify_name(leaves, index, role)


facet = RubyTagger
