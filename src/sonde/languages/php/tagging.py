"""What a name names in PHP: what is made by `new` is a class, however it is called."""

from __future__ import annotations

from sonde.languages.engine.tagging import TaggingOf, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage


class PhpTagging(TaggingOf):
    """PHP's `Tagging`."""

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """By its role; a name that is called behind `new` is a class's."""
        first = place
        while preceded(listed, first, "\\"):
            first -= 2 if first > 1 and listed[first - 2].kind == "name" else 1
        if role == "call" and first and listed[first - 1].kind == "new":
            return "IDC"
        return super().named(listed, place, role)


def facet(language: TreeSitterLanguage) -> PhpTagging:
    """PHP's classes of tokens."""
    return PhpTagging(language)
