"""Registries of extensions: each file or folder of a package is an extension, its stem the public name.

Code that extensions share is in the folder `ENGINE`; a leading underscore means private. Listing reads
docstrings and the literal constants ``NEEDS``, ``ALIASES`` and ``FLAGS`` without an import; loading a name
imports one module. Installed packages add extensions through an entry-point group, and users by the path of
a ``.py`` file or folder, see `sonde.base.plugins`. Neither overrides a name of sonde's own.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from typing_extensions import get_protocol_members

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.plugins import (
    content_hash,
    is_own,
    is_path,
    module_of,
    module_offered,
    offered,
    remember,
    remembered,
    source_of,
)

T = TypeVar("T")

ENGINE = "engine"
"""Folder of the code that extensions of a package share; it is no extension itself."""

_LITERALS = ("NEEDS", "ALIASES", "FLAGS")


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata of an extension, read without an import.

    Attributes:
        name: Public name.
        summary: First line of its docstring.
        needs: Capabilities that it requires of a model.
        aliases: Alternative names.
        flags: Its options that the command line also takes as a flag, by flag.
    """

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict[str, str])


def _read_header(name: str, path: Path) -> Header:
    module = ast.parse(path.read_text(encoding="utf-8"))
    summary = (ast.get_docstring(module) or "").strip().partition("\n")[0].rstrip(".")
    literals: dict[str, Any] = {}
    for node in module.body:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id in _LITERALS and node.value is not None:
            literals[target.id] = ast.literal_eval(node.value)
    needs, aliases = (tuple(literals.get(one, ())) for one in ("NEEDS", "ALIASES"))
    return Header(name, summary, needs, aliases, literals.get("FLAGS", {}))


class Registry(Generic[T]):
    """Extensions of one package.

    Args:
        package: The package, for example ``"sonde.lenses"``.
        kind: Noun for its members in messages, for example ``"lens"``.
        member: Name of the object that each module defines, for example ``"lens"``.
        protocols: Protocols of which each member has to implement at least one.
        folders: Whether a folder contains extensions, one per file, rather than being one.
        group: Entry-point group of installed packages; the name of the package by default.
    """

    def __init__(
        self,
        package: str,
        kind: str,
        member: str,
        *,
        protocols: Sequence[type] = (),
        folders: bool = False,
        group: str = "",
    ) -> None:
        self._package = package
        self._group = group or package
        self._kind = kind
        self._member = member
        self._protocols = protocols
        self._folders = folders
        self._loaded: dict[str, T] = {}

    def headers(self) -> tuple[Header, ...]:
        """Return the headers of all extensions, external ones included, by name; nothing is imported."""
        paths = {**remembered(self._group), **self._paths()}
        found = {name: _read_header(name, _init(path)) for name, path in paths.items()}
        for name, point in offered(self._group).items():
            source = source_of(point) if is_own(point) else None
            told = Header(name, f"from the package {_package(point)}")
            found.setdefault(name, _read_header(name, source) if source else told)
        return tuple(header for _, header in sorted(found.items()))

    def names(self) -> tuple[str, ...]:
        """Return all public names, those of users' files and installed packages included, sorted."""
        return tuple(sorted({*self._paths(), *remembered(self._group), *offered(self._group)}))

    def public(self, name: str) -> str:
        """Return the name of an extension in tables: the stem of a path, else the name itself."""
        return Path(name).stem if is_path(name) else name

    def hand_in(self, name: str) -> str:
        """Return the public name of an extension; a path is imported and registered under its stem.

        Raises:
            InputError: The path cannot be imported.
            UsageError: Its stem is the name of an extension of sonde's own.
        """
        if not is_path(name):
            return name
        path = Path(name)
        own = {name for name, point in offered(self._group).items() if is_own(point)}
        if path.stem in own | self._paths().keys():
            raise UsageError(
                f"{self._kind} {name!r}: sonde has a {self._kind} {path.stem!r} of its own; rename the "
                f"{'folder' if path.is_dir() else 'file'}"
            )
        self._member_of(module_of(path, self._group, f"{self._kind} {name!r}"), name)
        remember(self._group, path)
        return path.stem

    def source_hash(self, name: str) -> str:
        """Hash the source of a user's extension; empty for sonde's own, which have versions."""
        path = Path(name) if is_path(name) else remembered(self._group).get(name)
        return "" if path is None or name in self._paths() else content_hash(path)

    def module_name(self, name: str) -> str:
        """Return the full module name of an extension; sonde's own are not imported for it."""
        paths = self._paths()
        return self._dotted(paths[name]) if name in paths else self._module(name).__name__

    def folder_of(self, name: str) -> str:
        """Return the subfolder of one of sonde's own extensions; empty for others and at the top level."""
        path = self._paths().get(name)
        return path.parent.name if path is not None and path.parent != self._folder() else ""

    def load(self, name: str) -> T:
        """Import one extension and return its object.

        Args:
            name: A public name in any case, an alias, or the path of a ``.py`` file or of a folder.

        Raises:
            UnknownNameError: No extension has this name; suggests the nearest.
            InputError: It does not exist, cannot be imported, or lacks a required member.
        """
        if name not in self._loaded:
            self._loaded[name] = self._member_of(self._module(name), name)
        return self._loaded[name]

    def check_recorded(self, name: str, where: Path) -> None:
        """Refuse a name in the files of a run that is the path of unknown code; loading would execute it.

        Args:
            name: Name or path in the run; a path is accepted if the user registered the same file.
            folder: Folder of the run, for the message.

        Raises:
            InputError: The path was not registered in this process.
        """
        taken = name in self._loaded or Path(name).resolve() in remembered(self._group).values()
        if is_path(name) and not taken:
            raise InputError(
                f"{where}: the run names the {self._kind} {name!r}; code that a run names is not executed "
                "unless you name it yourself"
            )

    def _module(self, name: str) -> ModuleType:
        what = f"{self._kind} {name!r}"
        if is_path(name):
            return module_of(Path(name), self._group, what)
        paths = self._paths()
        for public in (name, name.replace("-", "_").lower()):
            if public in paths:
                return importlib.import_module(self._dotted(paths[public]))
        if name in (handed_in := remembered(self._group)):
            return module_of(handed_in[name], self._group, what)
        if name in (points := offered(self._group)):
            return module_offered(points[name], what)
        for header in self.headers():
            if name in header.aliases:
                return importlib.import_module(self._dotted(paths[header.name]))
        raise UnknownNameError(self._kind, name, self.names())

    def _member_of(self, module: ModuleType, name: str) -> T:
        if not hasattr(module, self._member):
            raise InputError(f"{self._kind} {name!r}: {module.__file__} does not define `{self._member}`")
        found = getattr(module, self._member)
        lacking = [
            sorted(one for one in get_protocol_members(protocol) if not hasattr(found, one))
            for protocol in self._protocols
        ]
        if lacking and all(lacking):
            raise InputError(f"{self._kind} {name!r}: it lacks {', '.join(min(lacking, key=len))}")
        return found

    def _dotted(self, path: Path) -> str:
        """Return the module name of a file in the package."""
        parts = path.relative_to(self._folder()).with_suffix("").parts
        return ".".join((self._package, *(part for part in parts if part != "__init__")))

    def _paths(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for entry in self._public(self._folder()):
            if entry.suffix == ".py":
                found[entry.stem] = entry
            elif self._folders and entry.is_dir():
                found |= {file.stem: file for file in self._public(entry) if file.suffix == ".py"}
            elif (entry / "__init__.py").is_file():
                found[entry.name] = entry / "__init__.py"
        return found

    @staticmethod
    def _public(folder: Path) -> Iterator[Path]:
        entries = (entry for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
        return (entry for entry in entries if entry.name != ENGINE)

    def _folder(self) -> Path:
        spec = importlib.util.find_spec(self._package)
        assert spec is not None and spec.submodule_search_locations, self._package
        return Path(next(iter(spec.submodule_search_locations)))


def _init(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.module
