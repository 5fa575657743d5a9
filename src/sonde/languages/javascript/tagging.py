"""Classes of names in JavaScript: names of modules are identified by the imports of the file."""

from __future__ import annotations

from sonde.languages.engine.language import node_text
from sonde.languages.engine.tagging import Tagger, has_next, has_previous, is_class_name
from sonde.languages.engine.tokens import Leaf

_TAGS = frozenset({"jsx_opening_element", "jsx_closing_element", "jsx_self_closing_element"})


class JavaScriptTagger(Tagger):
    """JavaScript's `sonde.languages.engine.tagging.Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of modules at their binding, and before a dot unless the text binds the name itself."""
        local_names = {node_text(node) for node, _ in self.language.locals(text).definitions}
        module_starts = super().packages(imports, "")
        module_names = {
            leaf.text for leaf in self.metrics.leaves(imports) if leaf.start in module_starts
        } - local_names
        leaves = self.metrics.leaves(text)
        return super().packages(text, imports) | {
            leaf.start
            for index, leaf in enumerate(leaves)
            if leaf.text in module_names and leaf.kind == "identifier" and has_next(leaves, index, ".")
        }

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Classify as classes names after ``new``, and capitalised ones before a dot or after ``instanceof``.

        HTML tags have no class.
        """
        leaf = leaves[index]
        if leaf.parent in _TAGS and leaf.text.islower():
            return ""
        first = index
        while has_previous(leaves, first, ".") and first > 1:
            first -= 2
        follows_new = role == "call" and has_previous(leaves, first, "new")
        is_qualifier = has_next(leaves, index, ".") or has_previous(leaves, index, "instanceof")
        if follows_new or (is_qualifier and is_class_name(leaf.text)):
            return "IDC"
        return super().classify_name(leaves, index, role)


facet = JavaScriptTagger
