"""Java's imports and the static calls through them.

Calls that begin with an imported type (``List.of(``), constructors (``new ArrayList<>(``) and calls of a
method imported statically. Local variables, parameters, fields, type parameters and nested types hide an
import of the same name; inherited members are not known here. ``java.lang`` is not imported, so its types are
not counted; neither are names that the code itself writes out in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tree_sitter

from sonde.languages.engine.grammar import error_spans, node_text
from sonde.languages.engine.imports import (
    METHOD,
    ApiCall,
    Called,
    FileNames,
    Imported,
    ImportedNames,
    ImportsOf,
    in_one_of,
    resolved,
)
from sonde.languages.engine.names import locals_of
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> JavaImports:
    """Return the facet ``imports``."""
    return JavaImports(language)


class JavaImports(ImportsOf):
    """`ImportReader` for Java."""

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `ImportReader.read`; imports are absolute, and the types of variables are not inferred."""
        source, tree = self.language.syntax(text)
        captures = dict(self.language.grammar.captures("imports", tree.root_node))
        names = ImportedNames(locals_of(self.language.grammar, tree.root_node))
        imports: list[Imported] = []
        stars: list[str] = []
        for node in sorted(captures.get("import", []), key=lambda node: node.start_byte):
            found = _imported(node, source)
            if any(child.type == "asterisk" for child in node.children):
                stars.append(found.name)
                continue
            imports.append(found)
            names.bind_import(node.start_byte, found)
            if found.member:
                names.bind_import(node.start_byte, found, found.bound + METHOD)
        calls = _calls(captures, names, source, error_spans(tree.root_node))
        return FileNames(tuple(imports), tuple(calls), tuple(stars), 0)


def _imported(node: tree_sitter.Node, source: EncodedText) -> Imported:
    named = next(child for child in node.children if child.type in ("scoped_identifier", "identifier"))
    name = ".".join(_levels(named) or ())
    static = any(child.type == "static" for child in node.children)
    at = (source.at(node.start_byte), source.at(node.end_byte))
    return Imported(name.rpartition(".")[2], name, name, static, "", *at)


def _calls(
    captures: Mapping[str, list[tree_sitter.Node]],
    names: ImportedNames,
    source: EncodedText,
    errors: list[tuple[int, int]],
) -> Iterator[ApiCall]:
    found = [(node, capture) for capture in ("bare", "called", "new") for node in captures.get(capture, [])]
    for node, capture in sorted(found, key=lambda entry: (entry[0].start_byte, entry[0].end_byte)):
        called = _called(node, capture)
        if called is None or in_one_of(errors, called.start):
            continue
        key = called.levels[0] + METHOD if capture == "bare" else None
        call = resolved(names, called, (source.at(called.start), source.at(called.end)), key)
        if call is not None:
            yield call


def _called(node: tree_sitter.Node, capture: str) -> Called | None:
    """Return the call of a captured name, or None if its receiver is not a chain of names."""
    if capture == "bare":
        return Called((node_text(node),), "call", node.start_byte, node.end_byte)
    if capture == "new":
        levels = _levels(node)
        return None if levels is None else Called(levels, "new", node.start_byte, node.end_byte)
    receiver = None if node.parent is None else node.parent.child_by_field_name("object")
    levels = None if receiver is None else _levels(receiver)
    if receiver is None or levels is None:
        return None
    return Called((*levels, node_text(node)), "call", receiver.start_byte, node.end_byte)


def _levels(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of a dotted name of any kind, or None for other nodes."""
    levels: list[str] = []
    while node.type in ("scoped_identifier", "scoped_type_identifier", "field_access"):
        inner = [child for child in node.children if child.is_named and not child.is_extra]
        if len(inner) != 2:
            return None
        levels.append(node_text(inner[1]))
        node = inner[0]
    if node.type not in ("identifier", "type_identifier"):
        return None
    return (*reversed([*levels, node_text(node)]),)
