"""Classes of names in JavaScript: names of modules are identified by the imports of the file."""

from __future__ import annotations

from sonde.languages.engine.grammar import node_text
from sonde.languages.engine.tagging import TaggingOf, follows, like_a_class, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

_TAGS = frozenset({"jsx_opening_element", "jsx_closing_element", "jsx_self_closing_element"})


class JavaScriptTagging(TaggingOf):
    """JavaScript's `Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of modules at their binding, and before a dot unless the text binds the name itself."""
        own = {node_text(node) for node, _ in self.language.locals(text).definitions}
        places = super().packages(imports, "")
        bound = {leaf.text for leaf in self.metrics.leaves(imports) if leaf.start in places} - own
        listed = self.metrics.leaves(text)
        return super().packages(text, imports) | {
            leaf.start
            for place, leaf in enumerate(listed)
            if leaf.text in bound and leaf.kind == "identifier" and follows(listed, place, ".")
        }

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Classify as classes names after ``new``, and capitalised ones before a dot or after ``instanceof``.

        HTML tags have no class.
        """
        leaf = listed[place]
        if leaf.parent in _TAGS and leaf.text.islower():
            return ""
        first = place
        while preceded(listed, first, ".") and first > 1:
            first -= 2
        made = role == "call" and preceded(listed, first, "new")
        told = follows(listed, place, ".") or preceded(listed, place, "instanceof")
        if made or (told and like_a_class(leaf.text)):
            return "IDC"
        return super().named(listed, place, role)


def facet(language: TreeSitterLanguage) -> JavaScriptTagging:
    """Return JavaScript's tagger."""
    return JavaScriptTagging(language)
