"""Python's imports and the calls through them.

Class bodies are not visible from their methods, a comprehension's first iterable and a function's default
values belong to the enclosing scope, `global` and `nonlocal` move a binding, and `del` makes a name local as
every binding does. Code in strings (annotations, ``__import__("x")``) is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
    read_packages,
    resolved,
)
from sonde.languages.engine.names import locals_of
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage


def facet(language: TreeSitterLanguage) -> PythonImports:
    """Return the facet ``imports``."""
    return PythonImports(language)


class PythonImports(ImportsOf):
    """`ImportReader` for Python."""

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """See `ImportReader.read`."""
        source, tree = self.language.syntax(text)
        captures = dict(self.language.grammar.captures("imports", tree.root_node))
        held = ImportedNames(locals_of(self.language.grammar, tree.root_node))
        reader = _Reader(source, _package(path))
        statements = sorted(captures.get("import", ()), key=lambda node: node.start_byte)
        imports: list[Imported] = []
        for node in statements:
            for found in reader.imported(node):
                held.bind_import(node.start_byte, found)
                imports.append(found)
        if propagate:
            _propagate(captures, held, source)
        calls = _calls(captures, held, source, error_spans(tree.root_node))
        return FileNames(tuple(imports), tuple(calls), tuple(reader.stars), reader.unplaced)

    def rooted(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """Strip from each path the folders above its outermost package, one with an ``__init__``.

        The path of a file in no package is unchanged. If the common folder is itself a package, its name is
        the first level.
        """
        given = list(paths)
        packages = {
            path.rpartition("/")[0]
            for path in given
            if path.rpartition("/")[2].partition(".")[0] == read_packages(self.language).file
        }
        return {path: _from_root(path, packages, folder) for path in given}


def _from_root(path: str, packages: set[str], folder: str) -> str:
    levels = path.split("/")
    first = len(levels) - 1
    if "/".join(levels[:first]) not in packages:
        return path
    while first and "/".join(levels[: first - 1]) in packages:
        first -= 1
    if first == 0:
        return f"{folder}/{path}" if folder else path
    return "/".join(levels[first - 1 :])


def _package(path: str) -> list[str] | None:
    """Return the levels of the package that a file belongs to, or None without a path."""
    return path.split("/")[:-1] if path else None


_Captures = Mapping[str, list[tree_sitter.Node]]


def _calls(
    captures: _Captures, held: ImportedNames, source: EncodedText, errors: list[tuple[int, int]]
) -> Iterator[ApiCall]:
    for node in sorted(captures.get("called", ()), key=lambda node: (node.start_byte, node.end_byte)):
        levels = _chain(node)
        if levels is None or in_one_of(errors, node.start_byte):
            continue
        called = Called(levels, "call", node.start_byte, node.end_byte)
        found = resolved(held, called, (source.at(node.start_byte), source.at(node.end_byte)))
        if found is not None:
            yield found


def _propagate(captures: _Captures, held: ImportedNames, source: EncodedText) -> None:
    """Bind ``x`` in ``x = m.C()`` to ``m.C``; all are resolved before any is bound, so one step far."""
    reached: list[tuple[tree_sitter.Node, Imported]] = []
    for target in captures.get("assigned", ()):
        assert target.parent is not None
        value = target.parent.child_by_field_name("right")
        callee = None if value is None else value.child_by_field_name("function")
        levels = None if callee is None else _chain(callee)
        if callee is None or levels is None:
            continue
        found = held.resolve(callee.start_byte, levels[0])
        if found is not None:
            name = ".".join([found.name, *levels[1:]])
            at = (source.at(target.parent.start_byte), source.at(target.parent.end_byte))
            reached.append((target, Imported(node_text(target), name, name, False, "", *at)))
    for target, value in reached:
        held.propagate(target.start_byte, node_text(target), value)


def _chain(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of ``a.b.c``, or None if the node is not a chain of names."""
    return chain_of(node, "attribute", inner="object", name="attribute")


@dataclass(slots=True)
class _Reader:
    """Reads import statements, and counts those that cannot be resolved."""

    source: EncodedText
    package: list[str] | None
    stars: list[str] = field(default_factory=list)
    unplaced: int = 0

    def imported(self, node: tree_sitter.Node) -> Iterator[Imported]:
        """Yield the names that a statement binds."""
        at = (self.source.at(node.start_byte), self.source.at(node.end_byte))
        names = [_name_and_alias(child) for child in node.children_by_field_name("name")]
        if node.type == "import_statement":
            for name, alias in names:
                bound = alias or name.partition(".")[0]
                yield Imported(bound, name if alias else bound, name, False, alias, *at)
            return
        module = self._module(node.child_by_field_name("module_name"))
        if module is None:
            self.unplaced += 1
        elif any(child.type == "wildcard_import" for child in node.children):
            self.stars.append(module)
        else:
            for name, alias in names:
                full = f"{module}.{name}" if module else name
                yield Imported(alias or name, full, full, True, alias, *at)

    def _module(self, node: tree_sitter.Node | None) -> str | None:
        """Return the absolute name of the module of a from-import, or None if it is unknown."""
        if node is None or node.type != "relative_import":
            return None if node is None else _dotted(node)
        prefix = next(child for child in node.children if child.type == "import_prefix")
        rest = [_dotted(child) for child in node.children if child.type == "dotted_name"]
        up = node_text(prefix).count(".") - 1
        if not self.package or up >= len(self.package):
            return None
        return ".".join([*self.package[: len(self.package) - up], *rest])


def _name_and_alias(node: tree_sitter.Node) -> tuple[str, str]:
    name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    return (_dotted(node), "") if name is None or alias is None else (_dotted(name), node_text(alias))


def _dotted(node: tree_sitter.Node) -> str:
    return ".".join(node_text(child) for child in node.children if child.type == "identifier")
