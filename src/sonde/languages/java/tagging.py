"""Classes of names in Java, by syntax and, where types would have to be known, by convention."""

from __future__ import annotations

from sonde.languages.engine.tagging import TaggingOf, follows, like_a_class, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

_DECLARING = frozenset({"import_declaration", "package_declaration", "scoped_identifier"})


class JavaTagging(TaggingOf):
    """Java's `Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of packages in imports, and in qualified names that begin like an import of the file.

        A package's name ends before the first capitalised name.
        """
        imported = self.metrics.leaves(imports + "\n" + self.imports(text))
        roots = {
            leaf.text
            for place, leaf in enumerate(imported)
            if leaf.kind in self.kinds and not preceded(imported, place, ".")
        }
        found: set[int] = set()
        listed = self.metrics.leaves(text)
        variables = {
            leaf.text for leaf in listed if leaf.parent in ("variable_declarator", "formal_parameter")
        }
        for place, leaf in enumerate(listed):
            if leaf.kind not in self.kinds or leaf.text[:1].isupper():
                continue
            if preceded(listed, place, "."):
                qualifies = place > 1 and listed[place - 2].start in found
                called = follows(listed, place, "(") or leaf.parent == "method_invocation"
                if qualifies and not called:
                    found.add(leaf.start)
            elif leaf.parent in ("import_declaration", "package_declaration") or (
                follows(listed, place, ".")
                and (leaf.parent == "scoped_identifier" or leaf.text in roots - variables)
            ):
                found.add(leaf.start)
        return found

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Classify types, constructors and, by convention, capitalised names before a dot as classes."""
        leaf = listed[place]
        if leaf.kind == "type_identifier" or role in ("class", "type", "decorator"):
            return "IDC"
        if leaf.parent in ("constructor_declaration", "compact_constructor_declaration"):
            return "IDC" if role == "function" else "IDV"
        if role in ("function", "call"):
            return "IDM"
        if leaf.parent in _DECLARING:
            return "IDC" if like_a_class(leaf.text) else ""
        if like_a_class(leaf.text) and follows(listed, place, ".") and not preceded(listed, place, "this"):
            return "IDC"
        return "IDV"


def facet(language: TreeSitterLanguage) -> JavaTagging:
    """Return Java's tagger."""
    return JavaTagging(language)
