"""Classes of names in Java, by syntax and, where types would have to be known, by convention."""

from __future__ import annotations

from sonde.languages.engine.tagging import Tagger, has_next, has_previous, is_class_name
from sonde.languages.engine.tokens import Leaf

_DECLARATIONS = frozenset({"import_declaration", "package_declaration", "scoped_identifier"})


class JavaTagger(Tagger):
    """Java's `sonde.languages.engine.tagging.Tagger`."""

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of packages in imports, and in qualified names that begin like an import of the file.

        A package's name ends before the first capitalised name.
        """
        import_leaves = self.metrics.leaves(imports + "\n" + self.imports(text))
        roots = {
            leaf.text
            for index, leaf in enumerate(import_leaves)
            if leaf.kind in self.kinds and not has_previous(import_leaves, index, ".")
        }
        starts: set[int] = set()
        leaves = self.metrics.leaves(text)
        variables = {
            leaf.text for leaf in leaves if leaf.parent in ("variable_declarator", "formal_parameter")
        }
        for index, leaf in enumerate(leaves):
            if leaf.kind not in self.kinds or leaf.text[:1].isupper():
                continue
            if has_previous(leaves, index, "."):
                qualifies = index > 1 and leaves[index - 2].start in starts
                is_call = has_next(leaves, index, "(") or leaf.parent == "method_invocation"
                if qualifies and not is_call:
                    starts.add(leaf.start)
            elif leaf.parent in ("import_declaration", "package_declaration") or (
                has_next(leaves, index, ".")
                and (leaf.parent == "scoped_identifier" or leaf.text in roots - variables)
            ):
                starts.add(leaf.start)
        return starts

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Classify types, constructors and, by convention, capitalised names before a dot as classes."""
        leaf = leaves[index]
        if leaf.kind == "type_identifier" or role in ("class", "type", "decorator"):
            return "IDC"
        if leaf.parent in ("constructor_declaration", "compact_constructor_declaration"):
            return "IDC" if role == "function" else "IDV"
        if role in ("function", "call"):
            return "IDM"
        if leaf.parent in _DECLARATIONS:
            return "IDC" if is_class_name(leaf.text) else ""
        if (
            is_class_name(leaf.text)
            and has_next(leaves, index, ".")
            and not has_previous(leaves, index, "this")
        ):
            return "IDC"
        return "IDV"


facet = JavaTagger
