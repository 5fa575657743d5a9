"""The folder is the registry: one file or folder an extension, its stem the public name.

Files whose name starts with an underscore are machinery. Listing reads docstrings and the literal
constants ``NEEDS`` and ``ALIASES`` without importing anything; looking a name up imports one module.
Installed packages add extensions through the entry-point group ``sonde.<folder>``; a user hands one in
as a path ending in ``.py``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.fingerprint import hash_text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an extension without importing it."""

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


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
        if isinstance(target, ast.Name) and target.id in ("NEEDS", "ALIASES") and node.value is not None:
            literals[target.id] = tuple(ast.literal_eval(node.value))
    return Header(name, summary, literals.get("NEEDS", ()), literals.get("ALIASES", ()))


class Registry(Generic[T]):
    """The extensions of one folder.

    Args:
        package: The package that is the registry, for example ``"sonde.lenses"``.
        kind: What its members are called in messages, for example ``"lens"``.
        member: The name of the object that each module defines, for example ``"lens"``.
        folders: Whether folders hold extensions, a file each, rather than being one.
    """

    def __init__(self, package: str, kind: str, member: str, *, folders: bool = False) -> None:
        self._package = package
        self._kind = kind
        self._member = member
        self._folders = folders
        self._loaded: dict[str, T] = {}

    def headers(self) -> tuple[Header, ...]:
        """Headers of the extensions in this folder, by name, without importing them."""
        return tuple(_read_header(name, path) for name, path in sorted(self._paths().items()))

    def names(self) -> tuple[str, ...]:
        """Public names, of this folder and of installed packages, sorted."""
        return tuple(sorted({*self._paths(), *self._outside()}))

    def public(self, name: str) -> str:
        """The name that tables have for an extension: its stem where a path names it, else the name."""
        return Path(name).stem if name.endswith(".py") else name

    def source_hash(self, name: str) -> str:
        """Hash of the file of an extension that a path names; empty for those with a version to raise."""
        return hash_text(Path(name).read_text(encoding="utf-8")) if name.endswith(".py") else ""

    def load(self, name: str) -> T:
        """Import one extension and return its object.

        Args:
            name: A public name in any case, an alias, or a path to a ``.py`` file.

        Raises:
            UnknownNameError: No extension has this name; the nearest is named.
            InputError: The module does not define the object that an extension has to define.
        """
        if name not in self._loaded:
            self._loaded[name] = self._member_of(self._module(name), name)
        return self._loaded[name]

    def _module(self, name: str) -> ModuleType:
        if name.endswith(".py"):
            return self._from_file(Path(name))
        paths = self._paths()
        for public in (name, name.replace("-", "_").lower()):
            if public in paths:
                return importlib.import_module(self._dotted(paths[public]))
        outside = self._outside()
        if name in outside:
            return importlib.import_module(outside[name])
        for header in self.headers():
            if name in header.aliases:
                return importlib.import_module(self._dotted(paths[header.name]))
        raise UnknownNameError(self._kind, name, self.names())

    def _member_of(self, module: ModuleType, name: str) -> T:
        if not hasattr(module, self._member):
            raise InputError(f"{self._kind} {name!r}: {module.__file__} does not define `{self._member}`")
        return getattr(module, self._member)

    def _from_file(self, path: Path) -> ModuleType:
        if not path.is_file():
            raise InputError(f"{self._kind} {str(path)!r}: no such file")
        module_name = f"{self._package}._outside_{hash_text(str(path.resolve()))[:8]}_{path.stem}"
        if module_name not in sys.modules:
            spec = importlib.util.spec_from_file_location(module_name, path)
            if spec is None or spec.loader is None:
                raise InputError(f"{self._kind} {str(path)!r}: cannot be imported")
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            spec.loader.exec_module(module)
        return sys.modules[module_name]

    def _dotted(self, path: Path) -> str:
        """The module of a file below the folder."""
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
        return (entry for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))

    def _folder(self) -> Path:
        spec = importlib.util.find_spec(self._package)
        assert spec is not None and spec.submodule_search_locations, self._package
        return Path(next(iter(spec.submodule_search_locations)))

    def _outside(self) -> dict[str, str]:
        group = self._package
        return {point.name: point.module for point in entry_points(group=group)}
