"""JavaScript's imports, by ``import`` and by ``require``, and the calls of what modules export.

A name is a module and what it exports, ``fs.readFileSync``, so that it can be written as a call and as an import.
Modules whose names are no identifiers (``./a``, ``@a/b``, ``a-b``), deeper names and what a call gives are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import tree_sitter

from sonde.languages._grammar import error_spans, node_text
from sonde.languages._imports import (
    ApiCall,
    Called,
    FileNames,
    Imported,
    ImportedNames,
    read_settings,
    resolved,
)
from sonde.languages._locals import locals_of
from sonde.languages._treesitter import TreeSitterLanguage



def facet(language: TreeSitterLanguage) -> JavaScriptImports:
    """The facet ``imports``."""
    return JavaScriptImports(language, *read_settings(language))


@dataclass(frozen=True, slots=True)
class JavaScriptImports:
    """`sonde.languages._imports.Imports` for JavaScript."""

    language: TreeSitterLanguage
    version: str
    library_levels: int
    templates: Mapping[str, Mapping[str, str]]

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `Imports.read`; what a call gives has no import of its own, so that nothing is propagated."""
        source, tree = self.language.syntax(text)
        captures = dict(self.language.grammar.captures("imports", tree.root_node))
        names = ImportedNames(locals_of(self.language.grammar, tree.root_node))
        imports: list[Imported] = []
        unplaced = 0
        for node in sorted(captures.get("import", ()), key=lambda node: node.start_byte):
            module = _module(node)
            if not module.isidentifier():
                unplaced += 1
                continue
            at = (source.at(node.start_byte), source.at(node.end_byte))
            for bound, member in _bound(node):
                name, own = node_text(bound), member or module
                full = f"{module}.{member}" if member else module
                found = Imported(name, full, full, bool(member), name if name != own else "", *at)
                names.bind_import(bound.start_byte, found)
                imports.append(found)
        errors = error_spans(tree.root_node)
        calls: list[ApiCall] = []
        for kind in ("call", "new"):
            for node in captures.get(kind, ()):
                levels = _levels(node)
                if levels is None or any(start <= node.start_byte < end for start, end in errors):
                    continue
                called = Called(levels, kind, node.start_byte, node.end_byte)
                call = resolved(names, called, (source.at(node.start_byte), source.at(node.end_byte)))
                if call is not None and call.name.count(".") == 1:
                    calls.append(call)
        return FileNames(tuple(imports), tuple(sorted(calls, key=lambda call: call.start)), (), unplaced)

    def rooted(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """The paths as they are: no module of a repository is named by its path alone."""
        return {path: path for path in paths}


def _module(node: tree_sitter.Node) -> str:
    """What an import names, without the mark of Node's own modules; empty where that is computed."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.type == "string":
            return node_text(here)[1:-1].removeprefix("node:")
        fields = ("source", "value", "object", "arguments")
        waiting += [child for child in map(here.child_by_field_name, fields) if child is not None]
        waiting += [child for child in here.named_children[:1] if here.type == "arguments"]
    return ""


def _bound(node: tree_sitter.Node) -> Iterator[tuple[tree_sitter.Node, str]]:
    """The names that an import binds, with the member that each stands for; empty for a whole module."""
    if node.type == "import_statement":
        for clause in (child for child in node.named_children if child.type == "import_clause"):
            for child in clause.named_children:
                if child.type != "named_imports":
                    yield (child if child.type == "identifier" else child.named_children[0]), ""
                    continue
                for one in child.named_children:
                    name, alias = one.child_by_field_name("name"), one.child_by_field_name("alias")
                    if name is not None and name.type == "identifier":
                        yield alias or name, node_text(name)
        return
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or value is None:
        return
    member = value.child_by_field_name("property")
    if name.type == "identifier":
        yield name, "" if member is None else node_text(member)
    elif member is None:
        for child in name.named_children:
            key, inner = child.child_by_field_name("key"), child.child_by_field_name("value")
            if child.type == "shorthand_property_identifier_pattern":
                yield child, node_text(child)
            elif key is not None and inner is not None and inner.type == "identifier":
                yield inner, node_text(key)


def _levels(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """The levels of ``a.b.c``; None for what is no chain of names."""
    levels: list[str] = []
    while node.type == "member_expression":
        name, inner = node.child_by_field_name("property"), node.child_by_field_name("object")
        if name is None or inner is None:
            return None
        levels.append(node_text(name))
        node = inner
    return (*reversed([*levels, node_text(node)]),) if node.type == "identifier" else None
