"""Python's imports and the calls through them.

Class bodies are not visible from their methods, a comprehension's first iterable and a function's default
values belong to the enclosing scope, `global` and `nonlocal` move a binding, and `del` makes a name local as
every binding does. Code in strings (annotations, ``__import__("x")``) is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import tree_sitter

from sonde.languages.engine.imports import (
    CallSite,
    FileImports,
    ImportBinding,
    ImportedNames,
    ImportReader,
    read_name_chain,
    read_package_layout,
    resolve_calls,
)
from sonde.languages.engine.language import find_error_spans, node_text
from sonde.languages.engine.names import find_locals
from sonde.languages.engine.text import EncodedText


class PythonImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for Python."""

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileImports:
        """See `sonde.languages.engine.imports.ImportReader.read`."""
        source, root = self.language.syntax(text)
        captures = self.language.captures("imports", text)
        names = ImportedNames(find_locals(self.language.grammar, root))
        reader = _StatementReader(source, _get_package(path))
        statements = sorted(captures.get("import", ()), key=lambda node: node.start_byte)
        imports: list[ImportBinding] = []
        for node in statements:
            for binding in reader.read_bindings(node):
                names.bind_import(node.start_byte, binding)
                imports.append(binding)
        if propagate:
            _propagate_assignments(captures, names, source)
        chains = ((node, _read_chain(node)) for node in captures.get("called", ()))
        call_sites = (CallSite(levels, "call", *node.byte_range) for node, levels in chains if levels)
        calls = resolve_calls(names, call_sites, source, find_error_spans(root))
        return FileImports(tuple(imports), calls, tuple(reader.stars), reader.unplaced)

    def to_import_paths(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """Strip from each path the folders above its outermost package, one with an ``__init__``.

        The path of a file in no package is unchanged. If the common folder is itself a package, its name is
        the first level.
        """
        path_list = list(paths)
        packages = {
            path.rpartition("/")[0]
            for path in path_list
            if path.rpartition("/")[2].partition(".")[0] == read_package_layout(self.language).file
        }
        return {path: _strip_import_root(path, packages, folder) for path in path_list}


def _strip_import_root(path: str, packages: set[str], folder: str) -> str:
    levels = path.split("/")
    first = len(levels) - 1
    if "/".join(levels[:first]) not in packages:
        return path
    while first and "/".join(levels[: first - 1]) in packages:
        first -= 1
    if first == 0:
        return f"{folder}/{path}" if folder else path
    return "/".join(levels[first - 1 :])


def _get_package(path: str) -> list[str] | None:
    """Return the levels of the package that a file belongs to, or None without a path."""
    return path.split("/")[:-1] if path else None


_CapturedNodes = Mapping[str, list[tree_sitter.Node]]


def _propagate_assignments(captures: _CapturedNodes, names: ImportedNames, source: EncodedText) -> None:
    """Bind ``x`` in ``x = m.C()`` to ``m.C``; all are resolved before any is bound, so one step far."""
    bindings: list[tuple[tree_sitter.Node, ImportBinding]] = []
    for target in captures.get("assigned", ()):
        assert target.parent is not None
        value = target.parent.child_by_field_name("right")
        callee = None if value is None else value.child_by_field_name("function")
        levels = None if callee is None else _read_chain(callee)
        if callee is None or levels is None:
            continue
        binding = names.resolve(callee.start_byte, levels[0])
        if binding is not None:
            name = ".".join([binding.name, *levels[1:]])
            span = source.to_span(target.parent.byte_range)
            bindings.append((target, ImportBinding(node_text(target), name, name, False, "", *span)))
    for target, value in bindings:
        names.propagate(target.start_byte, node_text(target), value)


def _read_chain(node: tree_sitter.Node) -> tuple[str, ...] | None:
    """Return the levels of ``a.b.c``, or None if the node is not a chain of names."""
    return read_name_chain(node, "attribute", object_field="object", name_field="attribute")


@dataclass(slots=True)
class _StatementReader:
    """Reads import statements, and counts those that cannot be resolved."""

    source: EncodedText
    package: list[str] | None
    stars: list[str] = field(default_factory=list)
    unplaced: int = 0

    def read_bindings(self, node: tree_sitter.Node) -> Iterator[ImportBinding]:
        """Yield the names that a statement binds."""
        span = self.source.to_span(node.byte_range)
        names = [_read_name_and_alias(child) for child in node.children_by_field_name("name")]
        if node.type == "import_statement":
            for name, alias in names:
                bound_name = alias or name.partition(".")[0]
                yield ImportBinding(bound_name, name if alias else bound_name, name, False, alias, *span)
            return
        module = self._resolve_module(node.child_by_field_name("module_name"))
        if module is None:
            self.unplaced += 1
        elif any(child.type == "wildcard_import" for child in node.children):
            self.stars.append(module)
        else:
            for name, alias in names:
                full_name = f"{module}.{name}" if module else name
                yield ImportBinding(alias or name, full_name, full_name, True, alias, *span)

    def _resolve_module(self, node: tree_sitter.Node | None) -> str | None:
        """Return the absolute name of the module of a from-import, or None if it is unknown."""
        if node is None or node.type != "relative_import":
            return None if node is None else _read_dotted_name(node)
        prefix = next(child for child in node.children if child.type == "import_prefix")
        rest = [_read_dotted_name(child) for child in node.children if child.type == "dotted_name"]
        parent_count = node_text(prefix).count(".") - 1
        if not self.package or parent_count >= len(self.package):
            return None
        return ".".join([*self.package[: len(self.package) - parent_count], *rest])


def _read_name_and_alias(node: tree_sitter.Node) -> tuple[str, str]:
    name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    return (
        (_read_dotted_name(node), "")
        if name is None or alias is None
        else (_read_dotted_name(name), node_text(alias))
    )


def _read_dotted_name(node: tree_sitter.Node) -> str:
    return ".".join(node_text(child) for child in node.children if child.type == "identifier")


facet = PythonImportReader
