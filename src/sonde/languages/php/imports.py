"""PHP's imports and the calls through them.

Static calls that begin with an imported class or namespace (``Yaml::parse(``), constructors (``new Yaml(``)
and calls of imported functions. Types of objects are not inferred; names that the code itself writes out in
full are left out.
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


def facet(language: TreeSitterLanguage) -> PhpImports:
    """Return the facet ``imports``."""
    return PhpImports(language)


class PhpImports(ImportsOf):
    """`ImportReader` for PHP."""

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `ImportReader.read`; imports are absolute, and the types of variables are not inferred."""
        source, tree = self.language.syntax(text)
        captures = dict(self.language.grammar.captures("imports", tree.root_node))
        names = ImportedNames(locals_of(self.language.grammar, tree.root_node))
        imports: list[Imported] = []
        for node in sorted(captures.get("import", []), key=lambda node: node.start_byte):
            for found in _imported(node, source):
                imports.append(found)
                names.bind_import(node.start_byte, found, found.bound + METHOD * found.member)
        errors = error_spans(tree.root_node)
        calls: list[ApiCall] = []
        for called in sorted(_calls(captures), key=lambda called: (called.start, called.end)):
            if not in_one_of(errors, called.start):
                at = source.at(called.start), source.at(called.end)
                key = called.levels[0] + METHOD * (called.kind == "function" and len(called.levels) == 1)
                calls += filter(None, [resolved(names, called, at, key)])
        return FileNames(tuple(imports), tuple(calls), (), 0)


def _imported(node: tree_sitter.Node, source: EncodedText) -> Iterator[Imported]:
    """Yield the imports of a statement, except constants, which are never called."""
    body = node.child_by_field_name("body")
    # In a group the namespace precedes the braces.
    before = [one for one in node.named_children if body is not None and one.type == "namespace_name"]
    around = [level for one in before for level in _levels(one)]
    at = source.at(node.start_byte), source.at(node.end_byte)
    clauses = [
        clause
        for clause in (node if body is None else body).named_children
        if clause.type == "namespace_use_clause"
    ]
    # In a list the first name gives the type of all; in a group each may have its own.
    first = clauses[0].child_by_field_name("type") if clauses and body is None else None
    shared = first or node.child_by_field_name("type")
    for clause in clauses:
        kind = clause.child_by_field_name("type") or shared
        if kind is not None and kind.type == "const":
            continue
        alias = clause.child_by_field_name("alias")
        levels = [*around, *_levels(clause.named_children[0])]
        named = "" if alias is None else node_text(alias)
        name = ".".join(levels)
        yield Imported(named or levels[-1], name, name, kind is not None, named, *at)


def _calls(captures: Mapping[str, list[tree_sitter.Node]]) -> Iterator[Called]:
    for kind in ("new", "function"):
        for node in captures.get(kind, []):
            if not node_text(node).startswith("\\"):
                yield Called(_levels(node), kind, *node.byte_range)
    for node in captures.get("call", []):
        scope, name = node.child_by_field_name("scope"), node.child_by_field_name("name")
        if scope is not None and name is not None and not node_text(scope).startswith("\\"):
            yield Called((*_levels(scope), node_text(name)), "call", scope.start_byte, name.end_byte)


def _levels(node: tree_sitter.Node) -> tuple[str, ...]:
    """Return the levels of a name with or without a namespace."""
    if node.type == "name":
        return (node_text(node),)
    return tuple(level for child in node.named_children for level in _levels(child))
