"""PHP's imports and the calls through them.

Static calls that begin with an imported class or namespace (``Yaml::parse(``), constructors (``new Yaml(``)
and calls of imported functions. Types of objects are not inferred; names that the code itself writes out in
full are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tree_sitter

from sonde.languages.engine.imports import (
    METHOD_SUFFIX,
    CallSite,
    ImportBinding,
    ImportReader,
    ImportScan,
)
from sonde.languages.engine.language import node_text
from sonde.languages.engine.text import EncodedText


class PhpImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for PHP."""

    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """See `sonde.languages.engine.imports.ImportReader.scan`."""
        captures = self.language.captures("imports", text)
        for node in sorted(captures.get("import", []), key=lambda node: node.start_byte):
            for binding in _read_imports(node, found.source):
                found.bind(node, binding, binding.bound + METHOD_SUFFIX * binding.member)
        found.call_sites += _find_call_sites(captures)


def _read_imports(node: tree_sitter.Node, source: EncodedText) -> Iterator[ImportBinding]:
    """Yield the imports of a statement, except constants, which are never called."""
    body = node.child_by_field_name("body")
    # In a group the namespace precedes the braces.
    namespaces = [
        child for child in node.named_children if body is not None and child.type == "namespace_name"
    ]
    prefix_levels = [level for child in namespaces for level in _read_levels(child)]
    span = source.to_span(node.byte_range)
    clauses = [
        clause
        for clause in (node if body is None else body).named_children
        if clause.type == "namespace_use_clause"
    ]
    # In a list the first name gives the type of all; in a group each may have its own.
    first = clauses[0].child_by_field_name("type") if clauses and body is None else None
    common_type = first or node.child_by_field_name("type")
    for clause in clauses:
        kind = clause.child_by_field_name("type") or common_type
        if kind is not None and kind.type == "const":
            continue
        alias = clause.child_by_field_name("alias")
        levels = [*prefix_levels, *_read_levels(clause.named_children[0])]
        alias_name = "" if alias is None else node_text(alias)
        name = ".".join(levels)
        yield ImportBinding(alias_name or levels[-1], name, name, kind is not None, alias_name, *span)


def _find_call_sites(captures: Mapping[str, list[tree_sitter.Node]]) -> Iterator[CallSite]:
    for kind in ("new", "function"):
        for node in captures.get(kind, []):
            if not node_text(node).startswith("\\"):
                levels = _read_levels(node)
                key = levels[0] + METHOD_SUFFIX if kind == "function" and len(levels) == 1 else ""
                yield CallSite(levels, kind, *node.byte_range, key=key)
    for node in captures.get("call", []):
        scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
        if scope is not None and name is not None and not node_text(scope).startswith("\\"):
            yield CallSite((*_read_levels(scope), node_text(name)), "call", scope.start_byte, name.end_byte)


def _read_levels(node: tree_sitter.Node) -> tuple[str, ...]:
    """Return the levels of a name with or without a namespace."""
    if node.type == "name":
        return (node_text(node),)
    return tuple(level for child in node.named_children for level in _read_levels(child))


facet = PhpImportReader
