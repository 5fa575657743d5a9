"""Names that a file imports, and the calls that go through them, by their fully qualified names.

Whole files are read, without types and without running anything. A language's ``locals.scm`` says what binds
names otherwise (`_locals`), its ``imports.py`` reads imports and calls; which binding a name means is decided
here, lexically: a name is looked up in the scope that it stands in, then outwards. A scope that imports a
name means the import by it, whatever else the scope binds to the name (the usual fallback ``except
ImportError: json = None`` does not hide it); of several imports of one name in one scope the first in the
text counts. A scope that binds the name otherwise hides the imports of the scopes around it.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.grammar import node_text
from sonde.languages.engine.names import Locals, Scope
from sonde.languages.engine.treesitter import TreeSitterLanguage


@dataclass(frozen=True, slots=True)
class Imported:
    """One name that an import binds, or a variable that stands for what an imported name gave.

    Attributes:
        bound: The name in the file.
        name: What it stands for, fully qualified; ``a`` for ``import a.b``, which binds ``a``.
        written: What the statement names, fully qualified; ``a.b`` for ``import a.b``.
        member: Whether the statement takes a member out of a module (``from a import b``).
        alias: What stands after ``as``; empty where nothing does.
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
        name: Fully qualified, as written: no re-export is followed.
        kind: The language's own kind of call, which picks the templates: ``"call"``, Java's ``"new"``.
        imported: The import that the name begins with.
        start: First character of the called name.
        end: One past its last character.
    """

    name: str
    kind: str
    imported: Imported
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FileNames:
    """What one file imports and calls.

    Attributes:
        imports: Names bound by imports, in text order.
        calls: Calls through them, in text order; calls inside ERROR nodes are left out.
        stars: Modules whose names are imported wholesale; such names stay unbound.
        unplaced: Relative imports that lead out of the tree, or stand in a file without a path.
    """

    imports: tuple[Imported, ...]
    calls: tuple[ApiCall, ...]
    stars: tuple[str, ...]
    unplaced: int


@runtime_checkable
class Imports(Protocol):
    """The facet ``imports`` of a language."""

    @property
    def version(self) -> str:
        """Raised when an answer changes."""
        ...

    @property
    def library_levels(self) -> int:
        """Leading levels of a name that name its library."""
        ...

    @property
    def templates(self) -> Mapping[str, Mapping[str, str]]:
        """For each kind of call its statements (``call``, ``import``, ``alias``, ``alias_member``).

        ``{name}`` stands for the levels of a name joined by dots, ``{module}`` for all but the last,
        ``{package}`` for the last of these, ``{member}`` for the last; in the alias forms ``{imported}`` for
        what is imported (``{imported_module}`` and ``{imported_member}`` its two parts), ``{alias}`` for the
        alias, ``{rest}`` for the levels behind it. A language without aliases has no alias forms. What joins
        levels otherwise than a dot stands behind a colon: ``{name:/}``.
        """
        ...

    def read(self, text: str, path: str = "", *, propagate: bool = False) -> FileNames:
        """The imports and API calls of a file.

        Args:
            text: The whole file.
            path: Path from the root of its imports, with forward slashes; relative imports are made
                absolute by it. Empty where unknown.
            propagate: Whether ``x = m.C(); x.f()`` counts as a call of ``m.C.f``, one step far.
        """
        ...

    def rooted(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """Each path as `read` wants it: from the root of its imports.

        Args:
            paths: Paths of the files of one repository.
            folder: Name of the folder that holds them, which may be a package itself.
        """
        ...


def read_settings(language: TreeSitterLanguage) -> tuple[str, int, Mapping[str, Mapping[str, str]]]:
    """Version, levels of a library's name and templates, from a language's ``imports.toml``."""
    data = language.table("imports")
    return data["version"], data["library_levels"], data["templates"]


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """How a language's packages are written.

    Attributes:
        file: Stem of the file that makes a folder a package.
        listing: The variable that lists what a module hands on.
    """

    file: str
    listing: str


def read_packages(language: TreeSitterLanguage) -> PackageFiles:
    """How packages are written, from a language's ``imports.toml``."""
    return PackageFiles(**language.table("imports")["packages"])


def read_frames(language: str) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """For each kind of call and each statement, the same statement in other frames, by the frame's name.

    From a language's ``imports.toml``; empty where it has none. The fields are those of
    `Imports.templates`.
    """
    file = files("sonde.languages") / language / "imports.toml"
    data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return data.get("frames", {})


@dataclass(frozen=True, slots=True)
class Called:
    """A call as found: the levels of its name as written, and where it stands, in bytes."""

    levels: tuple[str, ...]
    kind: str
    start: int
    end: int


class ImportsOf:
    """What the `Imports` of every language have: their table, and paths that stay as they are.

    Args:
        language: The language, whose folder holds ``imports.toml``.

    Attributes:
        unplaced_kind: What `FileNames.unplaced` counts, in words.
    """

    unplaced_kind = "relative ones that lead out of the corpus"

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        self.version, self.library_levels, self.templates = read_settings(language)

    def rooted(self, paths: Iterable[str], folder: str = "") -> Mapping[str, str]:
        """The paths as they are: no name of a module depends on where its file lies."""
        return {path: path for path in paths}


def chain_of(node: tree_sitter.Node, kind: str, inner: str, name: str) -> tuple[str, ...] | None:
    """The levels of ``a.b.c``; None for what is no chain of names.

    Args:
        node: The outermost node.
        kind: Kind of the nodes with something before a dot and a name behind it.
        inner: Field of what stands before the dot.
        name: Field of the name behind it.
    """
    levels: list[str] = []
    while node.type == kind:
        before, last = node.child_by_field_name(inner), node.child_by_field_name(name)
        if before is None or last is None:
            return None
        levels.append(node_text(last))
        node = before
    return (*reversed([*levels, node_text(node)]),) if node.type == "identifier" else None


def in_one_of(spans: Iterable[tuple[int, int]], byte: int) -> bool:
    """Whether a byte lies in one of some spans."""
    return any(start <= byte < end for start, end in spans)


METHOD = "()"
"""What the key of a method ends with, since some languages have names of methods apart from variables'."""


class ImportedNames:
    """What each scope of a file binds, by imports and otherwise.

    Args:
        held: What the language's ``locals.scm`` finds in the file.
    """

    def __init__(self, held: Locals) -> None:
        self._scopes = held.evaluated
        self._imported: defaultdict[int, dict[str, Imported]] = defaultdict(dict)
        self._bound: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for node, kind in held.definitions:
            name = node_text(node) + (METHOD if kind == "method" else "")
            self._bound[self._owner(node.start_byte, name, past=kind == "expression").number][name] += 1

    def bind_import(self, position: int, found: Imported, key: str | None = None) -> None:
        """Note an import; the first one of a name in a scope stays. Call in text order."""
        name = found.bound if key is None else key
        self._imported[self._owner(position, name).number].setdefault(name, found)

    def propagate(self, position: int, name: str, value: Imported) -> None:
        """Let a variable stand for what a call gave it, if nothing else is bound to it in its scope."""
        number = self._owner(position, name).number
        if self._bound[number][name] == 1 and name not in self._imported[number]:
            self._imported[number][name] = value

    def resolve(self, position: int, name: str) -> Imported | None:
        """The import that a name means at a byte; None where it means something else."""
        for scope in self._scopes.seen(self._scopes.at(position), name):
            if name in self._imported[scope.number]:
                return self._imported[scope.number][name]
            if self._bound[scope.number][name]:
                return None
        return None

    def _owner(self, position: int, name: str, *, past: bool = False) -> Scope:
        return self._scopes.owner(self._scopes.at(position), name, self._names, past=past)

    def _names(self, scope: Scope) -> Collection[str]:
        return self._bound[scope.number].keys() | self._imported[scope.number].keys()


def resolved(names: ImportedNames, call: Called, at: Sequence[int], key: str | None = None) -> ApiCall | None:
    """A call with its fully qualified name; None where it does not begin with an import.

    Args:
        names: What the file's scopes bind.
        call: The call as found.
        at: Its first and last character.
        key: What to look up instead of the first level, where the language keeps several name spaces.
    """
    found = names.resolve(call.start, call.levels[0] if key is None else key)
    if found is None:
        return None
    name = ".".join([found.name, *call.levels[1:]])
    return ApiCall(name, call.kind, found, at[0], at[1])
