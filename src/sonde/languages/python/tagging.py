"""Classes of names in Python, by syntax and, if that is ambiguous, by PEP 8's convention."""

from __future__ import annotations

from functools import lru_cache

import tree_sitter

from sonde.languages.engine.tagging import Tagger, has_previous, is_class_name
from sonde.languages.engine.tokens import Leaf
from sonde.languages.engine.treesitter import TreeSitterLanguage

_IMPORT_PARENTS = ("dotted_name", "aliased_import")
_IMPORT_CACHE_SIZE = 4_096
"""Number of files whose imported modules are cached, by their import statements."""


class PythonTagger(Tagger):
    """Python's `sonde.languages.engine.tagging.Tagger`."""

    def __init__(self, language: TreeSitterLanguage) -> None:
        super().__init__(language)
        # All functions of a file share its import statements, whatever order they come in.
        self._modules = lru_cache(maxsize=_IMPORT_CACHE_SIZE)(self._bound_names)

    def packages(self, text: str, imports: str) -> set[int]:
        """Find names of modules: in import statements, and uses of names that ``import`` bound to one.

        A name bound by ``from a import b`` may be anything and is no module here.
        """
        modules = self._modules(imports + "\n" + self.imports(text))
        starts: set[int] = set()
        import_spans = self._find_import_spans(text)
        path, span_index = "", 0
        leaves = self.metrics.leaves(text)
        for index, leaf in enumerate(leaves):
            if leaf.kind not in self.kinds:
                continue
            while span_index < len(import_spans) and import_spans[span_index][1] < leaf.end:
                span_index += 1
            if span_index < len(import_spans) and import_spans[span_index][0] <= leaf.start:
                starts.add(leaf.start)
                continue
            if has_previous(leaves, index, "."):
                path = f"{path}.{leaf.text}" if index > 1 and leaves[index - 2].start in starts else ""
            else:
                path = leaf.text if leaf.parent not in ("keyword_argument", "parameters") else ""
            if path in modules:
                starts.add(leaf.start)
        return starts

    def classify_name(self, leaves: tuple[Leaf, ...], index: int, role: str) -> str:
        """Classify defined, inherited, annotated or capitalised names as classes; others by syntax."""
        leaf = leaves[index]
        if leaf.parent in _IMPORT_PARENTS:
            return "IDC" if is_class_name(leaf.text) else ""
        if role in ("class", "type") or leaf.parent == "type":
            return "IDC"
        if role == "function":
            return "IDM"
        if role in ("keyword_argument", "parameter"):
            return "IDV"
        if is_class_name(leaf.text) or leaf.text in self.words:
            return "IDC"
        return "IDM" if role in ("call", "decorator") else "IDV"

    def _bound_names(self, statements: str) -> frozenset[str]:
        """Return the dotted names that import statements bind to modules."""
        modules: set[str] = set()
        parsed_text = self.metrics.reading(statements)
        for node in parsed_text.root.named_children:
            if node.type != "import_statement":
                continue
            for name in node.children_by_field_name("name"):
                alias = name.child_by_field_name("alias")
                if alias is not None:
                    modules.add(parsed_text.text(alias))
                    continue
                parts = parsed_text.text(name).split(".")
                modules |= {".".join(parts[: count + 1]) for count in range(len(parts))}
        return frozenset(modules)

    def _find_import_spans(self, text: str) -> list[tuple[int, int]]:
        """Find the disjoint spans of import statements in which every name is a module's, in text order."""
        parsed_text = self.metrics.reading(text)
        import_nodes = dict(self.language.grammar.captures("tagging", parsed_text.root)).get("import", [])
        nodes: list[tree_sitter.Node] = []
        for node in import_nodes:
            if node.type == "import_statement":
                nodes.append(node)
            elif (module := node.child_by_field_name("module_name")) is not None:
                nodes.append(module)
        return sorted(parsed_text.span(node) for node in nodes)


facet = PythonTagger
