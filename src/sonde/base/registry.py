"""The folder is the registry: one file or folder an extension, its stem the public name.

What all extensions share lies in the folder `ENGINE`; a leading underscore means private. Listing reads
docstrings and the literal constants ``NEEDS``, ``ALIASES`` and ``FLAGS`` without importing anything; a name
that is loaded imports one. Installed packages add extensions through an entry-point group; a user hands one
in as the path of a ``.py`` file or of a folder, see `sonde.base.plugins`. Neither hides a name of sonde's.
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
"""The folder of what all extensions of a package share, which is none itself."""

_LITERALS = ("NEEDS", "ALIASES", "FLAGS")


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an extension without importing it.

    Attributes:
        name: Public name.
        summary: The first line of its docstring.
        needs: What it asks of a model.
        aliases: Other names that it goes by.
        flags: Options of its own that the command line also takes as a flag, by flag.
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
    """The extensions of one folder.

    Args:
        package: The package that is the registry, for example ``"sonde.lenses"``.
        kind: What its members are called in messages, for example ``"lens"``.
        member: The name of the object that each module defines, for example ``"lens"``.
        protocols: What a member has to answer, one of them in full; what comes from outside is held to it.
        folders: Whether folders hold extensions, a file each, rather than being one.
        group: The entry-point group of installed packages; by default the name of the package.
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
        """Headers of the extensions of this folder and from outside, by name, without importing them."""
        paths = {**remembered(self._group), **self._paths()}
        found = {name: _read_header(name, _init(path)) for name, path in paths.items()}
        for name, point in offered(self._group).items():
            source = source_of(point) if is_own(point) else None
            told = Header(name, f"from the package {_package(point)}")
            found.setdefault(name, _read_header(name, source) if source else told)
        return tuple(header for _, header in sorted(found.items()))

    def names(self) -> tuple[str, ...]:
        """Public names, of this folder, of what was handed in and of installed packages, sorted."""
        return tuple(sorted({*self._paths(), *remembered(self._group), *offered(self._group)}))

    def public(self, name: str) -> str:
        """The name that tables have for an extension: its stem where a path names it, else the name."""
        return Path(name).stem if is_path(name) else name

    def hand_in(self, name: str) -> str:
        """The public name of an extension; one that a path names is known by it from now on.

        Raises:
            InputError: The path names nothing that can be imported.
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
        """Hash of what a user handed in; empty for extensions that have a version to raise."""
        path = Path(name) if is_path(name) else remembered(self._group).get(name)
        return "" if path is None or name in self._paths() else content_hash(path)

    def module_name(self, name: str) -> str:
        """The full name of the module of an extension; one of sonde's own is not imported for it."""
        paths = self._paths()
        return self._dotted(paths[name]) if name in paths else self._module(name).__name__

    def folder_of(self, name: str) -> str:
        """The folder that an extension of sonde's own lies in; empty where it is not, or lies in none."""
        path = self._paths().get(name)
        return path.parent.name if path is not None and path.parent != self._folder() else ""

    def load(self, name: str) -> T:
        """Import one extension and return its object.

        Args:
            name: A public name in any case, an alias, or the path of a ``.py`` file or of a folder.

        Raises:
            UnknownNameError: No extension has this name; the nearest is named.
            InputError: It is not there, cannot be imported, or lacks what an extension has to define.
        """
        if name not in self._loaded:
            self._loaded[name] = self._member_of(self._module(name), name)
        return self._loaded[name]

    def check_recorded(self, name: str, where: Path) -> None:
        """Refuse the path of code in the files of a run: whoever made the run would decide what is executed.

        Args:
            name: What the run names; a path is taken where the user handed the same file in.
            where: The folder of the run, for the message.

        Raises:
            InputError: It is a path that nobody here handed in.
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
