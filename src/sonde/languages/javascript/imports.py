"""JavaScript's imports, by ``import`` and by ``require``, and the calls of the exports of modules.

A name is a module and one export, ``fs.readFileSync``, so that it can be written as a call and as an import.
Modules whose names are no identifiers (``./a``, ``@a/b``, ``a-b``), deeper names and results of calls are
left out.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages.engine.imports import (
    CallSite,
    FileImports,
    ImportBinding,
    ImportedNames,
    ImportReader,
    read_name_chain,
    resolve_calls,
)
from sonde.languages.engine.language import find_error_spans, node_text
from sonde.languages.engine.names import find_locals


class JavaScriptImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for JavaScript."""

    unplaced_kind = "of files, and of packages whose names are no identifiers"

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileImports:
        """See `sonde.languages.engine.imports.ImportReader.read`.

        Results of calls have no import of their own, so nothing is propagated.
        """
        source, root = self.language.syntax(text)
        names = ImportedNames(find_locals(self.language.grammar, root))
        imports: list[ImportBinding] = []
        unplaced_ids: set[int] = set()
        call_sites: list[CallSite] = []
        for match in self.language.grammar.matches("imports", root):
            if "import" in match:
                statement, bound_node = match["import"][0], match["bound"][0]
                module = node_text(match["module"][0]).removeprefix("node:")
                if module.isidentifier():
                    span = source.to_span(statement.byte_range)
                    binding = _build_binding(node_text(bound_node), module, match.get("member", []), span)
                    names.bind_import(bound_node.start_byte, binding)
                    imports.append(binding)
                else:
                    unplaced_ids.add(statement.id)
            for kind in ("call", "new"):
                for node in match.get(kind, ()):
                    levels = _read_levels(node)
                    if levels is not None:
                        call_sites.append(CallSite(levels, kind, *node.byte_range))
        calls = resolve_calls(names, call_sites, source, find_error_spans(root))
        member_calls = tuple(call for call in calls if call.name.count(".") == 1)
        return FileImports(tuple(imports), member_calls, (), len(unplaced_ids))


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
