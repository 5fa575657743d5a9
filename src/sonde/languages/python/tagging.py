"""Classes of names in Python, by syntax and, if that is ambiguous, by PEP 8's convention."""

from __future__ import annotations

from functools import lru_cache

import tree_sitter

from sonde.languages.engine.tagging import TaggingOf, like_a_class, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

_IMPORTED = ("dotted_name", "aliased_import")
_KEPT_IMPORTS = 4_096
"""Number of files whose imported modules are cached, by their import statements."""


class PythonTagging(TaggingOf):
    """Python's `Tagger`."""

    def __init__(self, language: TreeSitterLanguage) -> None:
        super().__init__(language)
        # All functions of a file share its import statements, whatever order they come in.
        self._modules = lru_cache(maxsize=_KEPT_IMPORTS)(self._bound)

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of modules: in import statements, and uses of names that ``import`` bound to one.

        A name bound by ``from a import b`` may be anything and is no module here.
        """
        modules = self._modules(imports + "\n" + self.imports(text))
        found: set[int] = set()
        within = self._within_imports(text)
        path, beyond = "", 0
        listed = self.metrics.leaves(text)
        for place, leaf in enumerate(listed):
            if leaf.kind not in self.kinds:
                continue
            while beyond < len(within) and within[beyond][1] < leaf.end:
                beyond += 1
            if beyond < len(within) and within[beyond][0] <= leaf.start:
                found.add(leaf.start)
                continue
            if preceded(listed, place, "."):
                path = f"{path}.{leaf.text}" if place > 1 and listed[place - 2].start in found else ""
            else:
                path = leaf.text if leaf.parent not in ("keyword_argument", "parameters") else ""
            if path in modules:
                found.add(leaf.start)
        return found

    def named(self, listed: tuple[Leaf, ...], place: int, role: str) -> str:
        """Classify defined, inherited, annotated or capitalised names as classes; others by syntax."""
        leaf = listed[place]
        if leaf.parent in _IMPORTED:
            return "IDC" if like_a_class(leaf.text) else ""
        if role in ("class", "type") or leaf.parent == "type":
            return "IDC"
        if role == "function":
            return "IDM"
        if role in ("keyword_argument", "parameter"):
            return "IDV"
        if like_a_class(leaf.text) or leaf.text in self.tables.words:
            return "IDC"
        return "IDM" if role in ("call", "decorator") else "IDV"

    def _bound(self, statements: str) -> frozenset[str]:
        """Return the dotted names that import statements bind to modules."""
        modules: set[str] = set()
        reading = self.metrics.reading(statements)
        for node in reading.root.named_children:
            if node.type != "import_statement":
                continue
            for name in node.children_by_field_name("name"):
                alias = name.child_by_field_name("alias")
                if alias is not None:
                    modules.add(reading.text(alias))
                    continue
                parts = reading.text(name).split(".")
                modules |= {".".join(parts[: count + 1]) for count in range(len(parts))}
        return frozenset(modules)

    def _within_imports(self, text: str) -> list[tuple[int, int]]:
        """Find the disjoint spans of import statements in which every name is a module's, in text order."""
        reading = self.metrics.reading(text)
        found = dict(self.language.grammar.captures("tagging", reading.root)).get("import", [])
        places: list[tree_sitter.Node] = []
        for node in found:
            if node.type == "import_statement":
                places.append(node)
            elif (module := node.child_by_field_name("module_name")) is not None:
                places.append(module)
        return sorted(reading.span(node) for node in places)


def facet(language: TreeSitterLanguage) -> PythonTagging:
    """Return Python's tagger."""
    return PythonTagging(language)
