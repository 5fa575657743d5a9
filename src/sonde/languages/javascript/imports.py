"""JavaScript's imports, by ``import`` and by ``require``, and the calls of the exports of modules.

A name is a module and one export, ``fs.readFileSync``, so that it can be written as a call and as an import.
Modules whose names are no identifiers (``./a``, ``@a/b``, ``a-b``), deeper names and results of calls are
left out.
"""

from __future__ import annotations

from dataclasses import replace

import tree_sitter

from sonde.languages.engine.imports import (
    CallSite,
    FileImports,
    ImportBinding,
    ImportReader,
    ImportScan,
    read_name_chain,
)
from sonde.languages.engine.language import node_text


class JavaScriptImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for JavaScript."""

    unplaced_kind = "of files, and of packages whose names are no identifiers"

    def read(
        self, text: str, path: str = "", *, propagate: bool = False, file_imports: str = ""
    ) -> FileImports:
        """See `sonde.languages.engine.imports.ImportReader.read`; only calls of exports count."""
        result = super().read(text, path, propagate=propagate, file_imports=file_imports)
        return replace(result, calls=tuple(call for call in result.calls if call.name.count(".") == 1))

    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """See `sonde.languages.engine.imports.ImportReader.scan`."""
        unplaced_ids: set[int] = set()
        for match in self.language.grammar.matches("imports", self.language.syntax(text)[1]):
            if "import" in match:
                statement, bound_node = match["import"][0], match["bound"][0]
                module = node_text(match["module"][0]).removeprefix("node:")
                if module.isidentifier():
                    span = found.source.to_span(statement.byte_range)
                    binding = _build_binding(node_text(bound_node), module, match.get("member", []), span)
                    found.bind(bound_node, binding)
                else:
                    unplaced_ids.add(statement.id)
            for kind in ("call", "new"):
                for node in match.get(kind, ()):
                    if levels := _read_levels(node):
                        found.call_sites.append(CallSite(levels, kind, *node.byte_range))
        found.unplaced = len(unplaced_ids)


def _build_binding(
    bound_name: str, module: str, member: list[tree_sitter.Node], span: tuple[int, int]
) -> ImportBinding:
    exported_name = node_text(member[0]) if member else module
    name = f"{module}.{exported_name}" if member else module
    return ImportBinding(
        bound_name, name, name, bool(member), "" if bound_name == exported_name else bound_name, *span
    )


def _read_levels(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of ``a.b.c``, or None if the node is not a chain of names."""
    return read_name_chain(node, "member_expression", object_field="object", name_field="property")


facet = JavaScriptImportReader
