"""Classes of names in PHP: a name after `new` is a class, however it is spelt."""

from __future__ import annotations

from sonde.languages.engine.tagging import TaggingOf, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage


class PhpTagging(TaggingOf):
    """PHP's `Tagger`."""

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Classify a called name after `new` as a class, other names by their role."""
        first = place
        while preceded(listed, first, "\\"):
            first -= 2 if first > 1 and listed[first - 2].kind == "name" else 1
        if role == "call" and first and listed[first - 1].kind == "new":
            return "IDC"
        return super().named(listed, place, role)


def facet(language: TreeSitterLanguage) -> PhpTagging:
    """Return PHP's tagger."""
    return PhpTagging(language)
