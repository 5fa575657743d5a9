"""JavaScript's imports, by ``import`` and by ``require``, and the calls of the exports of modules.

A name is a module and one export, ``fs.readFileSync``, so that it can be written as a call and as an import.
Modules whose names are no identifiers (``./a``, ``@a/b``, ``a-b``), deeper names and results of calls are
left out.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages.engine.grammar import error_spans, node_text
from sonde.languages.engine.imports import (
    ApiCall,
    Called,
    FileNames,
    Imported,
    ImportedNames,
    ImportsOf,
    chain_of,
    in_one_of,
    resolved,
)
from sonde.languages.engine.names import locals_of
from sonde.languages.engine.treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> JavaScriptImports:
    """Return the facet ``imports``."""
    return JavaScriptImports(language)


class JavaScriptImports(ImportsOf):
    """`ImportReader` for JavaScript."""

    unplaced_kind = "of files, and of packages whose names are no identifiers"

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `ImportReader.read`; results of calls have no import of their own, so nothing is propagated."""
        source, tree = self.language.syntax(text)
        root = tree.root_node
        names, errors = ImportedNames(locals_of(self.language.grammar, root)), error_spans(root)
        imports: list[Imported] = []
        elsewhere: set[int] = set()
        called: list[Called] = []
        for match in self.language.grammar.matches("imports", root):
            if "import" in match:
                statement, bound = match["import"][0], match["bound"][0]
                module = node_text(match["module"][0]).removeprefix("node:")
                if module.isidentifier():
                    at = (source.at(statement.start_byte), source.at(statement.end_byte))
                    found = _imported(node_text(bound), module, match.get("member", []), at)
                    names.bind_import(bound.start_byte, found)
                    imports.append(found)
                else:
                    elsewhere.add(statement.id)
            for kind in ("call", "new"):
                for node in match.get(kind, ()):
                    at, levels = node.byte_range, _levels(node)
                    if levels is not None and not in_one_of(errors, at[0]):
                        called.append(Called(levels, kind, *at))
        calls = [resolved(names, one, (source.at(one.start), source.at(one.end))) for one in called]
        plain = (one for one in calls if one is not None and one.name.count(".") == 1)
        return FileNames(tuple(imports), tuple(sorted(plain, key=_start)), (), len(elsewhere))


def _start(call: ApiCall) -> int:
    return call.start


def _imported(bound: str, module: str, member: list[tree_sitter.Node], at: tuple[int, int]) -> Imported:
    own = node_text(member[0]) if member else module
    name = f"{module}.{own}" if member else module
    return Imported(bound, name, name, bool(member), "" if bound == own else bound, *at)


def _levels(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of ``a.b.c``, or None if the node is not a chain of names."""
    return chain_of(node, "member_expression", inner="object", name="property")
