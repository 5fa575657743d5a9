"""Names that a file imports, and the calls that go through them, by their fully qualified names.

Whole files are read, without types and without running anything. A language's ``imports.py`` captures scopes,
bindings, imports and calls; which binding a name means is decided here, lexically: a name is looked up in the
scope that it stands in, then outwards. A scope that imports a name means the import by it, whatever else the
scope binds to the name (the usual fallback ``except ImportError: json = None`` does not hide it); of several
imports of one name in one scope the first in the text counts. A scope that binds the name otherwise hides the
imports of the scopes around it.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

from sonde.languages._treesitter import TreeSitterLanguage


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
        ``{member}`` for the last; in the alias forms ``{imported}`` for what is imported
        (``{imported_module}`` and ``{imported_member}`` its two parts), ``{alias}`` for the alias, ``{rest}``
        for the levels behind it. A language without aliases has no alias forms.
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


def read_frames(language: str) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """For each kind of call and each statement, the same statement in other frames, by the frame's name.

    From a language's ``imports.toml``; empty where it has none. The fields are those of
    `Imports.templates`.
    """
    file = files("sonde.languages") / language / "imports.toml"
    data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return data.get("frames", {})


@dataclass(slots=True)
class Scope:
    """One lexical scope while a file is read.

    Attributes:
        kind: ``"module"``, ``"function"``, ``"class"`` or ``"comprehension"``.
        parent: The scope around it; None for the file's own.
        imported: Names bound by imports; the first one counts.
        bound: How often each name is bound otherwise.
        declared: Names that belong elsewhere, with ``"global"`` or ``"nonlocal"``.
    """

    kind: str
    parent: Scope | None
    imported: dict[str, Imported] = field(default_factory=dict)
    bound: Counter[str] = field(default_factory=Counter)
    declared: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Called:
    """A call as found: the levels of its name as written, and where it stands, in bytes."""

    levels: tuple[str, ...]
    kind: str
    start: int
    end: int


@dataclass(slots=True)
class ScopeRegion:
    """Bytes that belong to a scope, which may be the one around the node that holds them."""

    start: int
    end: int
    scope: Scope
    within: ScopeRegion | None


class Scopes:
    """The scopes of a file, and what each binds.

    Args:
        spans: Byte spans with their kind: a scope's kind, or ``"outside"`` for what is evaluated in the scope
            around the innermost one (default values, a class's bases, a comprehension's first iterable).
        end: Length of the file in bytes.
        see_through_classes: Whether methods see the names of their class without a prefix (Java; not Python).
    """

    def __init__(self, spans: Iterable[tuple[int, int, str]], end: int, *, see_through_classes: bool) -> None:
        self._see = see_through_classes
        self.module = Scope("module", None)
        self._regions = [ScopeRegion(-1, end + 1, self.module, None)]
        ordered = sorted(set(spans), key=lambda span: (span[0], -span[1], span[2] != "outside"))
        region = self._regions[0]
        for start, stop, kind in ordered:
            while region.within is not None and region.end <= start:
                region = region.within
            around = region.scope.parent or region.scope
            scope = around if kind == "outside" else Scope(kind, region.scope)
            region = ScopeRegion(start, stop, scope, region)
            self._regions.append(region)
        self._starts = [region.start for region in self._regions]

    def at(self, position: int) -> Scope:
        """The scope in which the code at a byte is evaluated."""
        region = self._regions[bisect_right(self._starts, position) - 1]
        while region.within is not None and region.end <= position:
            region = region.within
        return region.scope

    def declare(self, position: int, name: str, where: str) -> None:
        """Note a ``global`` or ``nonlocal`` name."""
        self.at(position).declared[name] = where

    def bind(self, position: int, name: str, *, past_comprehensions: bool = False) -> None:
        """Note a binding that is no import."""
        self._target(self.at(position), name, past_comprehensions).bound[name] += 1

    def bind_import(self, position: int, found: Imported, key: str | None = None) -> None:
        """Note an import; the first one of a name in a scope stays. Call in text order."""
        name = found.bound if key is None else key
        self._target(self.at(position), name, past_comprehensions=False).imported.setdefault(name, found)

    def propagate(self, position: int, name: str, value: Imported) -> None:
        """Let a variable stand for what a call gave it, if nothing else is bound to it in its scope."""
        scope = self._target(self.at(position), name, past_comprehensions=False)
        if scope.bound[name] == 1 and name not in scope.imported:
            scope.imported[name] = value

    def resolve(self, position: int, name: str) -> Imported | None:
        """The import that a name means at a byte; None where it means something else."""
        here: Scope | None = self.at(position)
        scope = here
        while scope is not None:
            where = scope.declared.get(name)
            if where is not None and scope is not self.module:
                scope = self.module if where == "global" else _enclosing(scope)
                here = scope
                continue
            if scope.kind != "class" or scope is here or self._see:
                if name in scope.imported:
                    return scope.imported[name]
                if scope.bound[name]:
                    return None
            scope = scope.parent
        return None

    def _target(self, scope: Scope, name: str, past_comprehensions: bool) -> Scope:
        while past_comprehensions and scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        where = scope.declared.get(name)
        if where == "global":
            return self.module
        return _owner(scope, name) if where == "nonlocal" else scope


def resolved(scopes: Scopes, call: Called, at: Sequence[int], key: str | None = None) -> ApiCall | None:
    """A call with its fully qualified name; None where it does not begin with an import.

    Args:
        scopes: The file's scopes.
        call: The call as found.
        at: Its first and last character.
        key: What to look up instead of the first level, where the language keeps several name spaces.
    """
    found = scopes.resolve(call.start, call.levels[0] if key is None else key)
    if found is None:
        return None
    name = ".".join([found.name, *call.levels[1:]])
    return ApiCall(name, call.kind, found, at[0], at[1])


def _enclosing(scope: Scope) -> Scope | None:
    """The function around a scope."""
    around = scope.parent
    while around is not None and around.kind == "class":
        around = around.parent
    return around


def _owner(scope: Scope, name: str) -> Scope:
    """The nearest function around that binds the name, which a ``nonlocal`` means."""
    around = _enclosing(scope)
    while around is not None and around.kind != "module":
        if name in around.bound or name in around.imported:
            return around
        around = _enclosing(around)
    return scope
