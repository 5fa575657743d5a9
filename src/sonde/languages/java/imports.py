"""Java's imports and the static calls through them.

Calls that begin with an imported type (``List.of(``), constructors (``new ArrayList<>(``) and calls of a
method imported statically. Local variables, parameters, fields, type parameters and nested types hide an
import of the same name; inherited members are not known here. ``java.lang`` is not imported, so its types are
not counted; neither are names that the code itself writes out in full.
"""

from __future__ import annotations

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


class JavaImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for Java."""

    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """See `sonde.languages.engine.imports.ImportReader.scan`."""
        captures = self.language.captures("imports", text)
        for node in sorted(captures.get("import", []), key=lambda node: node.start_byte):
            binding = _read_import(node, found.source)
            if any(child.type == "asterisk" for child in node.children):
                found.stars.append(binding.name)
            else:
                method_keys = [binding.bound + METHOD_SUFFIX] if binding.member else []
                found.bind(node, binding, binding.bound, *method_keys)
        for capture in ("bare", "called", "new"):
            call_sites = (_read_call_site(node, capture) for node in captures.get(capture, []))
            found.call_sites += filter(None, call_sites)


def _read_import(node: tree_sitter.Node, source: EncodedText) -> ImportBinding:
    name_node = next(child for child in node.children if child.type in ("scoped_identifier", "identifier"))
    name = ".".join(_read_levels(name_node) or ())
    static = any(child.type == "static" for child in node.children)
    span = source.to_span(node.byte_range)
    return ImportBinding(name.rpartition(".")[2], name, name, static, "", *span)


def _read_call_site(node: tree_sitter.Node, capture: str) -> CallSite | None:
    """Return the call of a captured name, or None if its receiver is not a chain of names."""
    if capture == "bare":
        name = node_text(node)
        return CallSite((name,), "call", *node.byte_range, key=name + METHOD_SUFFIX)
    if capture == "new":
        levels = _read_levels(node)
        return None if levels is None else CallSite(levels, "new", *node.byte_range)
    receiver = None if node.parent is None else node.parent.child_by_field_name("object")
    levels = None if receiver is None else _read_levels(receiver)
    if receiver is None or levels is None:
        return None
    return CallSite((*levels, node_text(node)), "call", receiver.start_byte, node.end_byte)


def _read_levels(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of a dotted name of any kind, or None for other nodes."""
    levels: list[str] = []
    while node.type in ("scoped_identifier", "scoped_type_identifier", "field_access"):
        parts = [child for child in node.children if child.is_named and not child.is_extra]
        if len(parts) != 2:
            return None
        levels.append(node_text(parts[1]))
        node = parts[0]
    if node.type not in ("identifier", "type_identifier"):
        return None
    return (*reversed([*levels, node_text(node)]),)


facet = JavaImportReader
