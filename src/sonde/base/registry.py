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
    find_entry_points,
    find_source_file,
    get_registered_paths,
    hash_path,
    import_entry_point,
    import_from_path,
    is_builtin,
    is_path,
    register_path,
)

T = TypeVar("T")

ENGINE = "engine"
"""Folder of the code that extensions of a package share; it is no extension itself."""

_HEADER_LITERALS = ("NEEDS", "ALIASES", "FLAGS")


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
        if isinstance(target, ast.Name) and target.id in _HEADER_LITERALS and node.value is not None:
            literals[target.id] = ast.literal_eval(node.value)
    needs, aliases = (tuple(literals.get(literal, ())) for literal in ("NEEDS", "ALIASES"))
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
        paths = {**get_registered_paths(self._group), **self._find_paths()}
        headers = {name: _read_header(name, _get_init_file(path)) for name, path in paths.items()}
        for name, entry_point in find_entry_points(self._group).items():
            source = find_source_file(entry_point) if is_builtin(entry_point) else None
            package_header = Header(name, f"from the package {_format_package(entry_point)}")
            headers.setdefault(name, _read_header(name, source) if source else package_header)
        return tuple(header for _, header in sorted(headers.items()))

    def names(self) -> tuple[str, ...]:
        """Return all public names, those of users' files and installed packages included, sorted."""
        return tuple(
            sorted({*self._find_paths(), *get_registered_paths(self._group), *find_entry_points(self._group)})
        )

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
        builtin_names = {
            builtin_name
            for builtin_name, entry_point in find_entry_points(self._group).items()
            if is_builtin(entry_point)
        }
        if path.stem in builtin_names | self._find_paths().keys():
            raise UsageError(
                f"{self._kind} {name!r}: sonde has a {self._kind} {path.stem!r} of its own; rename the "
                f"{'folder' if path.is_dir() else 'file'}"
            )
        self._get_member(import_from_path(path, self._group, f"{self._kind} {name!r}"), name)
        register_path(self._group, path)
        return path.stem

    def source_hash(self, name: str) -> str:
        """Hash the source of a user's extension; empty for sonde's own, which have versions."""
        path = Path(name) if is_path(name) else get_registered_paths(self._group).get(name)
        return "" if path is None or name in self._find_paths() else hash_path(path)

    def module_name(self, name: str) -> str:
        """Return the full module name of an extension; sonde's own are not imported for it."""
        paths = self._find_paths()
        return self._get_dotted_name(paths[name]) if name in paths else self._module(name).__name__

    def get_folder_name(self, name: str) -> str:
        """Return the subfolder of one of sonde's own extensions; empty for others and at the top level."""
        path = self._find_paths().get(name)
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
            self._loaded[name] = self._get_member(self._module(name), name)
        return self._loaded[name]

    def check_recorded_name(self, name: str, folder: Path) -> None:
        """Refuse a name in the files of a run that is the path of unknown code; loading would execute it.

        Args:
            name: Name or path in the run; a path is accepted if the user registered the same file.
            folder: Folder of the run, for the message.

        Raises:
            InputError: The path was not registered in this process.
        """
        is_known = name in self._loaded or Path(name).resolve() in get_registered_paths(self._group).values()
        if is_path(name) and not is_known:
            raise InputError(
                f"{folder}: the run names the {self._kind} {name!r}; code that a run names is not executed "
                "unless you name it yourself"
            )

    def _module(self, name: str) -> ModuleType:
        label = f"{self._kind} {name!r}"
        if is_path(name):
            return import_from_path(Path(name), self._group, label)
        paths = self._find_paths()
        for public_name in (name, name.replace("-", "_").lower()):
            if public_name in paths:
                return importlib.import_module(self._get_dotted_name(paths[public_name]))
        if name in (plugin_paths := get_registered_paths(self._group)):
            return import_from_path(plugin_paths[name], self._group, label)
        if name in (entry_points := find_entry_points(self._group)):
            return import_entry_point(entry_points[name], label)
        for header in self.headers():
            if name in header.aliases:
                return importlib.import_module(self._get_dotted_name(paths[header.name]))
        raise UnknownNameError(self._kind, name, self.names())

    def _get_member(self, module: ModuleType, name: str) -> T:
        if not hasattr(module, self._member):
            raise InputError(f"{self._kind} {name!r}: {module.__file__} does not define `{self._member}`")
        member = getattr(module, self._member)
        missing_members = [
            sorted(
                attribute for attribute in get_protocol_members(protocol) if not hasattr(member, attribute)
            )
            for protocol in self._protocols
        ]
        if missing_members and all(missing_members):
            raise InputError(f"{self._kind} {name!r}: it lacks {', '.join(min(missing_members, key=len))}")
        return member

    def _get_dotted_name(self, path: Path) -> str:
        """Return the module name of a file in the package."""
        parts = path.relative_to(self._folder()).with_suffix("").parts
        return ".".join((self._package, *(part for part in parts if part != "__init__")))

    def _find_paths(self) -> dict[str, Path]:
        paths: dict[str, Path] = {}
        for entry in self._iterate_public_entries(self._folder()):
            if entry.suffix == ".py":
                paths[entry.stem] = entry
            elif self._folders and entry.is_dir():
                paths |= {
                    file.stem: file for file in self._iterate_public_entries(entry) if file.suffix == ".py"
                }
            elif (entry / "__init__.py").is_file():
                paths[entry.name] = entry / "__init__.py"
        return paths

    @staticmethod
    def _iterate_public_entries(folder: Path) -> Iterator[Path]:
        entries = (entry for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
        return (entry for entry in entries if entry.name != ENGINE)

    def _folder(self) -> Path:
        spec = importlib.util.find_spec(self._package)
        assert spec is not None and spec.submodule_search_locations, self._package
        return Path(next(iter(spec.submodule_search_locations)))


def _get_init_file(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path


def _format_package(entry_point: EntryPoint) -> str:
    return f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist else entry_point.module
