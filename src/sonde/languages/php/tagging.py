"""Classes of names in PHP: a name after ``new`` is a class, however it is spelt."""

from __future__ import annotations

from sonde.languages.engine.tagging import Tagger, has_previous
from sonde.languages.engine.tokens import Leaf


class PhpTagger(Tagger):
    """PHP's `sonde.languages.engine.tagging.Tagger`."""

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Classify a called name after ``new`` as a class, other names by their role."""
        first = index
        while has_previous(leaves, first, "\\"):
            first -= 2 if first > 1 and leaves[first - 2].kind == "name" else 1
        if role == "call" and first and leaves[first - 1].kind == "new":
            return "IDC"
        return super().classify_name(leaves, index, role)


facet = PhpTagger
