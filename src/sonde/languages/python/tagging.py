"""What a name names in Python, by its place and, where that leaves it open, by PEP 8's convention."""

from __future__ import annotations

from functools import lru_cache

import tree_sitter

from sonde.languages.engine.tagging import TaggingOf, like_a_class, preceded
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

_IMPORTED = ("dotted_name", "aliased_import")
_KEPT_IMPORTS = 4_096
"""Files whose imported modules are kept, by their import statements."""


class PythonTagging(TaggingOf):
    """Python's `Tagging`."""

    def __init__(self, language: TreeSitterLanguage) -> None:
        super().__init__(language)
        # The functions of a file, asked one after the other or not, share its import statements.
        self._modules = lru_cache(maxsize=_KEPT_IMPORTS)(self._bound)

    def packages(self, text: str, imports: str) -> set[int]:
        """Names of modules: in import statements, and wherever a name stands that ``import`` bound to one.

        What ``from a import b`` binds may be anything and is no module here.
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
        """Classes are defined, inherited from, annotated or written with a capital; the rest by the place."""
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
        """Dotted names that import statements bind to modules."""
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
        """Spans of import statements in which every name is a module's, in text order; none is in another."""
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
    """Python's classes of tokens."""
    return PythonTagging(language)
