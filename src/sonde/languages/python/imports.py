"""Python's imports and the calls through them.

Class bodies are not visible from their methods, a comprehension's first iterable and a function's default
values belong to the enclosing scope, `global` and `nonlocal` move a binding, and `del` makes a name local as
every binding does. Code in strings (annotations, ``__import__("x")``) is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import tree_sitter

from sonde.languages.engine.imports import (
    CallSite,
    ImportBinding,
    ImportedNames,
    ImportReader,
    ImportScan,
    read_name_chain,
)
from sonde.languages.engine.language import node_text
from sonde.languages.engine.text import EncodedText


class PythonImportReader(ImportReader):
    """`sonde.languages.engine.imports.ImportReader` for Python."""

    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """See `sonde.languages.engine.imports.ImportReader.scan`."""
        captures = self.language.captures("imports", text)
        package = path.split("/")[:-1] if path else None
        for node in sorted(captures.get("import", ()), key=lambda node: node.start_byte):
            for binding in _read_bindings(node, package, found):
                found.bind(node, binding)
        if propagate:
            _propagate_assignments(captures, found.names, found.source)
        chains = ((node, _read_chain(node)) for node in captures.get("called", ()))
        found.call_sites += (CallSite(levels, "call", *node.byte_range) for node, levels in chains if levels)

    def to_import_paths(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """Strip from each path the folders above its outermost package, one with an ``__init__``.

        The path of a file in no package is unchanged. If the common folder is itself a package, its name is
        the first level.
        """
        path_list = list(paths)
        packages = {
            path.rpartition("/")[0]
            for path in path_list
            if path.rpartition("/")[2].partition(".")[0] == self.package_file
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


def _read_bindings(
    node: tree_sitter.Node, package: list[str] | None, found: ImportScan
) -> Iterator[ImportBinding]:
    """Yield the names that a statement binds; count it if it cannot be resolved.

    Args:
        node: The statement.
        package: Levels of the package that the file belongs to, if known.
        found: What is found in the file.
    """
    span = found.source.to_span(node.byte_range)
    names = [_read_name_and_alias(child) for child in node.children_by_field_name("name")]
    if node.type == "import_statement":
        for name, alias in names:
            bound_name = alias or name.partition(".")[0]
            yield ImportBinding(bound_name, name if alias else bound_name, name, False, alias, *span)
        return
    module = _resolve_module(node.child_by_field_name("module_name"), package)
    if module is None:
        found.unplaced += 1
    elif any(child.type == "wildcard_import" for child in node.children):
        found.stars.append(module)
    else:
        for name, alias in names:
            full_name = f"{module}.{name}" if module else name
            yield ImportBinding(alias or name, full_name, full_name, True, alias, *span)


def _resolve_module(node: tree_sitter.Node | None, package: list[str] | None) -> str | None:
    """Return the absolute name of the module of a from-import, or None if it is unknown."""
    if node is None or node.type != "relative_import":
        return None if node is None else _read_dotted_name(node)
    prefix = next(child for child in node.children if child.type == "import_prefix")
    rest = [_read_dotted_name(child) for child in node.children if child.type == "dotted_name"]
    parent_count = node_text(prefix).count(".") - 1
    if not package or parent_count >= len(package):
        return None
    return ".".join([*package[: len(package) - parent_count], *rest])


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
