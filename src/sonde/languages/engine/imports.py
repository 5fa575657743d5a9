"""Imports of a file and the calls through them, by fully qualified name.

Whole files are read, without types and without running anything. A language's ``locals.scm`` finds all other
bindings (`sonde.languages.engine.names`), its ``imports.py`` reads imports and calls. Names are resolved
here, lexically: a name is looked up in its own scope, then outwards. An import takes precedence over other
bindings of its scope (the usual fallback ``except ImportError: json = None`` does not hide it); of several
imports of one name in one scope the first in the text counts. Other bindings of a scope hide the imports of
outer scopes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import tree_sitter

from sonde.languages.engine.language import find_error_spans, get_facet, has_facet, node_text
from sonde.languages.engine.names import Locals, Scope, find_locals
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage


@dataclass(frozen=True, slots=True)
class ImportBinding:
    """A name that an import binds, or a variable bound to the result of an imported callable.

    Attributes:
        bound: The name in the file.
        name: Its fully qualified name; ``a`` for ``import a.b``, which binds ``a``.
        written: The fully qualified name in the statement; ``a.b`` for ``import a.b``.
        member: Whether the statement imports a member of a module (``from a import b``).
        alias: The name after ``as``; empty without one.
        start: First character of the statement.
        end: One past its last character.
    """

    bound: str
    name: str
    written: str
    member: bool
    alias: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call whose name begins with an imported one.

    Attributes:
        name: Fully qualified, as written: re-exports are not followed.
        kind: The language's own kind of call, which selects the templates: ``"call"``, Java's ``"new"``.
        imported: The import that the name begins with.
        start: First character of the called name.
        end: One past its last character.
    """

    name: str
    kind: str
    imported: ImportBinding
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FileImports:
    """The imports of a file and the calls through them.

    Attributes:
        imports: Names bound by imports, in text order.
        calls: Calls through them, in text order; calls inside ERROR nodes are omitted.
        stars: Modules imported with a wildcard, whose names stay unbound.
        unplaced: Number of imports that cannot be made absolute, such as relative ones that lead out of the
            tree.
    """

    imports: tuple[ImportBinding, ...]
    calls: tuple[ApiCall, ...]
    stars: tuple[str, ...]
    unplaced: int


def read_frames(language: str) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Read the frames of a language's ``imports.toml`` by kind of call, kind of statement and name.

    A frame is a variant of a statement, with the fields of `ImportReader.templates`. Empty for a language
    without imports.
    """
    return get_facet(language, "imports", ImportReader).frames if has_facet(language, "imports") else {}


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in the source: the levels of its name as written, and its byte span.

    ``key`` is the name to look up instead of the first level, if the language has several name spaces.
    """

    levels: tuple[str, ...]
    kind: str
    start: int
    end: int
    key: str = ""


class ImportReader(ABC):
    """The facet ``imports`` of a language, whose folder holds ``imports.toml``.

    Args:
        language: The language.

    Attributes:
        unplaced_kind: Describes the imports that `FileImports.unplaced` counts.
        package_file: Stem of the file that makes a folder a package.
        export_list: The variable that lists the exports of a module.
        frames: Variants of the statements, see `read_frames`.
        library_levels: How many leading levels of a name identify its library.
        templates: Maps each kind of call to its statements (``call``, ``import``, ``alias``,
            ``alias_member``).

            ``{name}`` is replaced by the levels of a name joined by dots, ``{module}`` by all but the last,
            ``{package}`` by the last of these, ``{member}`` by the last; in the alias forms ``{imported}`` by
            the imported name (``{imported_module}`` and ``{imported_member}`` are its two parts), ``{alias}``
            by the alias, ``{rest}`` by the levels after it. A language without aliases has no alias forms. A
            separator other than a dot follows a colon: ``{name:/}``.
    """

    unplaced_kind = "relative ones that lead out of the corpus"

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        table = language.table("imports")
        self.library_levels: int = table["library_levels"]
        self.templates: Mapping[str, Mapping[str, str]] = table["templates"]
        self.frames: Mapping[str, Mapping[str, Mapping[str, str]]] = table.get("frames", {})
        packages: Mapping[str, str] = table.get("packages", {})
        self.package_file = packages.get("file", "__init__")
        self.export_list = packages.get("listing", "")

    def read(
        self, text: str, path: str = "", *, propagate: bool = False, file_imports: str = ""
    ) -> FileImports:
        """Read the imports and API calls of a file, or of an excerpt.

        Args:
            text: The full text of the file, or the excerpt.
            path: Path from the root of its imports, with forward slashes, which makes relative imports
                absolute. Empty if unknown.
            propagate: Whether ``x = m.C(); x.f()`` counts as a call of ``m.C.f``, one step far. Passed over
                by languages that infer nothing.
            file_imports: Import statements of the file that an excerpt is from; bindings of the excerpt hide
                them.
        """
        outer = self.read_names(file_imports) if file_imports else {}
        source, root = self.language.syntax(text)
        found = ImportScan(source, ImportedNames(find_locals(self.language.grammar, root), outer))
        self.scan(found, text, path, propagate=propagate)
        calls = resolve_calls(found.names, found.call_sites, source, find_error_spans(root))
        return FileImports(tuple(found.imports), calls, tuple(found.stars), found.unplaced)

    def read_names(self, imports: str) -> Mapping[str, ImportBinding]:
        """Return the names that import statements bind, as they are looked up."""
        source, root = self.language.syntax(imports)
        found = ImportScan(source, ImportedNames(find_locals(self.language.grammar, root)))
        self.scan(found, imports, "", propagate=False)
        return found.names.imported

    @abstractmethod
    def scan(self, found: ImportScan, text: str, path: str, *, propagate: bool) -> None:
        """Add the imports and calls of a file, imports in text order; see `read`."""

    def to_import_paths(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """Map each path to the path that `read` expects, from the root of its imports.

        By default the paths are unchanged: the names of modules do not depend on the location of the file.

        Args:
            paths: Paths of the files of one repository.
            folder: Name of the folder that contains them, which may itself be a package.
        """
        return {path: path for path in paths}

    def to_module_name(self, path: str) -> str:
        """Return the module name of a file, from its path from the root of imports."""
        stem = path.rpartition(".")[0] or path
        return stem.removesuffix(f"/{self.package_file}").replace("/", ".")


def read_name_chain(
    node: tree_sitter.Node, chain_kind: str, object_field: str, name_field: str
) -> tuple[str, ...] | None:
    """Return the levels of ``a.b.c``, or None if the node is not a chain of names.

    Args:
        node: The outermost node.
        chain_kind: Kind of the nodes that join an object and a name with a dot.
        object_field: Field of the part before the dot.
        name_field: Field of the name after it.
    """
    levels: list[str] = []
    while node.type == chain_kind:
        prefix, member = node.child_by_field_name(object_field), node.child_by_field_name(name_field)
        if prefix is None or member is None:
            return None
        levels.append(node_text(member))
        node = prefix
    return (*reversed([*levels, node_text(node)]),) if node.type == "identifier" else None


METHOD_SUFFIX = "()"
"""Suffix of the key of a method, since some languages keep the names of methods and variables apart."""


class ImportedNames:
    """The bindings of each scope of a file, by imports and otherwise.

    Args:
        bindings: The result of the language's ``locals.scm``.
        outer: Names that are imported around the text.
    """

    def __init__(self, bindings: Locals, outer: Mapping[str, ImportBinding] = MappingProxyType({})) -> None:
        self._outer = outer
        self._scopes = bindings.evaluation_scopes
        self._imports: defaultdict[int, dict[str, ImportBinding]] = defaultdict(dict)
        self._bound_names: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for node, kind in bindings.definitions:
            name = node_text(node) + (METHOD_SUFFIX if kind == "method" else "")
            self._bound_names[
                self._find_owner(node.start_byte, name, skip_comprehensions=kind == "expression").number
            ][name] += 1

    def bind_import(self, position: int, binding: ImportBinding, name: str) -> None:
        """Record an import under a name; the first one in a scope stays. Call in text order."""
        self._imports[self._find_owner(position, name).number].setdefault(name, binding)

    def propagate(self, position: int, name: str, value: ImportBinding) -> None:
        """Bind a variable to the import that its value came from, unless its scope binds it a second time."""
        scope_number = self._find_owner(position, name).number
        if self._bound_names[scope_number][name] == 1 and name not in self._imports[scope_number]:
            self._imports[scope_number][name] = value

    def resolve(self, position: int, name: str) -> ImportBinding | None:
        """Return the import that a name at a byte refers to, or None if it refers to something else."""
        for scope in self._scopes.visible_scopes(self._scopes.find_scope(position), name):
            if name in self._imports[scope.number]:
                return self._imports[scope.number][name]
            if self._bound_names[scope.number][name]:
                return None
        return self._outer.get(name)

    @property
    def imported(self) -> dict[str, ImportBinding]:
        """Return the imports of all scopes by the name that is looked up; of several the first stays."""
        names: dict[str, ImportBinding] = {}
        for scope_imports in self._imports.values():
            for name, binding in scope_imports.items():
                names.setdefault(name, binding)
        return names

    def _find_owner(self, position: int, name: str, *, skip_comprehensions: bool = False) -> Scope:
        return self._scopes.owner(
            self._scopes.find_scope(position),
            name,
            lambda scope: self._bound_names[scope.number].keys() | self._imports[scope.number].keys(),
            skip_comprehensions=skip_comprehensions,
        )


@dataclass(slots=True)
class ImportScan:
    """What is found in a file so far.

    Attributes:
        source: The text.
        names: The bindings of its scopes.
        imports: Names bound by imports.
        stars: Modules imported with a wildcard.
        call_sites: All calls whose name is a chain of names.
        unplaced: Number of imports that cannot be made absolute.
    """

    source: EncodedText
    names: ImportedNames
    imports: list[ImportBinding] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    call_sites: list[CallSite] = field(default_factory=list)
    unplaced: int = 0

    def bind(self, node: tree_sitter.Node, binding: ImportBinding, *keys: str) -> None:
        """Record an import at a node, under its name or the given keys."""
        self.imports.append(binding)
        for key in keys or (binding.bound,):
            self.names.bind_import(node.start_byte, binding, key)


def resolve_calls(
    names: ImportedNames,
    call_sites: Iterable[CallSite],
    source: EncodedText,
    errors: Sequence[tuple[int, int]],
) -> tuple[ApiCall, ...]:
    """Return the calls that begin with an import, by fully qualified name and in text order.

    Args:
        names: The bindings of the file's scopes.
        call_sites: All calls of the file.
        source: The text.
        errors: Byte spans of ERROR nodes, in which no call is trusted.
    """
    calls: list[ApiCall] = []
    for call_site in sorted(call_sites, key=lambda call_site: (call_site.start, call_site.end)):
        binding = names.resolve(call_site.start, call_site.key or call_site.levels[0])
        if binding is not None and not any(start <= call_site.start < end for start, end in errors):
            name = ".".join([binding.name, *call_site.levels[1:]])
            span = source.to_span((call_site.start, call_site.end))
            calls.append(ApiCall(name, call_site.kind, binding, *span))
    return tuple(calls)
