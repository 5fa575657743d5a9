"""Registries of extensions: files and folders of sonde's packages, of users and of installed packages.

Each file or folder of a package is an extension, its stem the public name. Code that extensions share is in
the folder `ENGINE`; a leading underscore means private. Listing reads docstrings and the literal constants
``NEEDS``, ``ALIASES``, ``SYNONYMS`` and ``FLAGS`` without an import; loading a name imports one module.

Installed packages add extensions through an entry-point group, and users by the path of a ``.py`` file or
folder. Neither overrides a name of sonde's own. A user's extension is known by its public name from its first
use on, in this process and its children: they inherit the environment variable with its path.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Generic, TypeVar

from typing_extensions import get_protocol_members, is_protocol

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.fingerprint import fingerprint, hash_text

_PATHS_ENV = "SONDE_OUTSIDE"


_OUTSIDE = "_outside_"
"""Begins the name of the module of a user's file."""


def is_path(name: str) -> bool:
    """Return whether a name is the path of a ``.py`` file or folder rather than a public name."""
    return name.endswith(".py") or name.startswith((".", os.sep)) or (os.sep in name and Path(name).is_dir())


def register_path(package: str, path: Path) -> None:
    """Register an extension by its stem, for this process and its children."""
    plugins = json.loads(os.environ.get(_PATHS_ENV, "{}"))
    plugins.setdefault(package, {})[path.stem] = str(path.resolve())
    os.environ[_PATHS_ENV] = json.dumps(plugins)


def get_plugin_environment() -> dict[str, str]:
    """Return the environment variables by which another process finds the registered extensions."""
    return {_PATHS_ENV: os.environ[_PATHS_ENV]} if _PATHS_ENV in os.environ else {}


def get_registered_paths(package: str) -> dict[str, Path]:
    """Return the paths of extensions that were registered for a package, by public name."""
    plugins = json.loads(os.environ.get(_PATHS_ENV, "{}"))
    return {name: Path(path) for name, path in plugins.get(package, {}).items()}


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing them.

    No other package overrides an entry point of sonde itself (`sonde.papers`).
    """
    return _find_entry_points(group, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _find_entry_points(group: str, module_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Find entry points once per ``sys.path``: reading the metadata of all distributions is slow."""
    return {
        entry_point.name: entry_point for entry_point in sorted(entry_points(group=group), key=is_builtin)
    }


def is_builtin(entry_point: EntryPoint) -> bool:
    """Return whether an entry point belongs to sonde itself."""
    return _is_own_module(entry_point.module)


def load_published_object(group: str, name: str) -> Any:
    """Load the object that a paper registered under `name` in an entry-point group; None if there is none."""
    return _load_published_object(group, name, tuple(sys.path))


@functools.lru_cache(maxsize=1024)
def _load_published_object(group: str, name: str, module_path: tuple[str, ...]) -> Any:
    entry_point = find_entry_points(group).get(name)
    return None if entry_point is None else entry_point.load()


def check_published_group(group: str) -> None:
    """Check that papers have registered entry points in `group`.

    Raises:
        InputError: The group is empty: sonde is not installed, or was before these existed.
    """
    if not find_entry_points(group):
        raise InputError("the papers of sonde are not registered; install sonde again (pip install -e .)")


def find_source_file(entry_point: EntryPoint) -> Path | None:
    """Return the source file of an entry point without importing it; None if there is no file."""
    package, *submodules = entry_point.module.split(".")
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    if not submodules and spec is not None and spec.origin is not None:
        return Path(spec.origin)
    for part in submodules:
        folders = [folder / part for folder in folders]
    files = (path for folder in folders for path in (folder.with_suffix(".py"), folder / "__init__.py"))
    return next((path for path in files if path.is_file()), None)


def hash_path(path: Path) -> str:
    """Hash a file, or all files of a folder."""
    if path.is_file():
        return hash_text(path.read_text(encoding="utf-8"))
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return fingerprint([(str(file.relative_to(path)), file.read_bytes().hex()) for file in files])


def import_from_path(path: Path, package: str, label: str) -> ModuleType:
    """Import a file, or a folder with an ``__init__.py``, as a module of a package.

    Args:
        path: The file or folder.
        package: The package of the registry.
        label: Subject of error messages.

    Raises:
        InputError: The file does not exist or cannot be imported.
    """
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"{label}: no such file" if path.suffix == ".py" else f"{label}: {file} is not there"
        )
    name = f"{package}.{_OUTSIDE}{hash_text(str(path.resolve()))[:8]}_{path.stem}"
    if name not in sys.modules:
        search_folders = [str(path)] if path.is_dir() else None
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search_folders)
        assert spec is not None and spec.loader is not None, file
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"{label}: {_describe_import_error(error)}") from error
    return sys.modules[name]


def get_public_name(module: str) -> str:
    """Return the public name of an extension from the full name of its module."""
    return re.sub(rf"^{_OUTSIDE}[0-9a-f]{{8}}_", "", module.rpartition(".")[2])


def import_entry_point(entry_point: EntryPoint, label: str) -> ModuleType:
    """Import the module of an entry point.

    Raises:
        InputError: It cannot be imported.
    """
    try:
        return importlib.import_module(entry_point.module)
    except Exception as error:
        origin = entry_point.dist.name if entry_point.dist else entry_point.module
        package = entry_point.module.partition(".")[0]
        raise InputError(f"{label} of {origin}: {_describe_import_error(error, package)}") from error


def _describe_import_error(error: Exception, package: str = "") -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    reason = f"{type(error).__name__}: {message}".partition("\n")[0]
    line = find_extension_line(error, package)
    return f"it cannot be imported: {reason}{f' ({line})' if line else ''}"


def is_from_outside(extension: object) -> bool:
    """Return whether the class of an extension is in a user's file or in another package."""
    module = type(extension).__module__
    return _OUTSIDE in module or not _is_own_module(module)


def _is_own_module(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


def find_extension_line(error: BaseException, package: str = "") -> str:
    """Return the file and line of a user's extension that an error came from, as ``task.py, line 12``.

    Args:
        error: The error.
        package: Top-level package whose lines count as well, if it is not sonde.

    Returns:
        The last such line of the traceback; of a syntax error where that is. Empty if there is none.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shorten_path(error.filename)}, line {error.lineno}"
    location = ""
    for frame, line in walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__", ""))
        if _OUTSIDE in name or (package and name.partition(".")[0] == package and not _is_own_module(name)):
            location = f"{_shorten_path(frame.f_code.co_filename)}, line {line}"
    return location


def locate_method(extension: object, name: str) -> str:
    """Return the file of an extension's class, with the line of a method if it is defined there."""
    kind = type(extension)
    file = str(getattr(sys.modules.get(kind.__module__), "__file__", "") or "")
    code = getattr(getattr(kind, name, None), "__code__", None)
    line = f", line {code.co_firstlineno}" if code is not None and code.co_filename == file else ""
    return f"{_shorten_path(file)}{line}" if file else ""


def _shorten_path(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


T = TypeVar("T")


ENGINE = "engine"
"""Folder of the code that extensions of a package share; it is no extension itself."""


_HEADER_LITERALS = ("NEEDS", "ALIASES", "SYNONYMS", "FLAGS")


@dataclass(frozen=True, slots=True)
class Header:
    """Metadata of an extension, read without an import.

    Attributes:
        name: Public name.
        summary: First line of its docstring.
        needs: Capabilities that it requires of a model.
        aliases: Alternative names.
        flags: Its options that the command line also takes as a flag, by flag; a flag without an option
            chooses the extension itself.
        synonyms: Words that others use for it; they do not load it, but lead to its name.
        details: The rest of its docstring.
    """

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict[str, str])
    synonyms: tuple[str, ...] = ()
    details: str = ""

    @property
    def description(self) -> str:
        """Return the words by which somebody may look for it."""
        return ". ".join((*self.aliases, *self.synonyms, self.summary))


def _read_header(name: str, path: Path) -> Header:
    return _parse_header(name, path, path.stat().st_mtime_ns)


@functools.cache
def _parse_header(name: str, path: Path, _modified: int) -> Header:
    """Parse a file once; a user's file is read anew when it was modified."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    summary, _, details = (ast.get_docstring(module) or "").strip().partition("\n")
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
    needs, aliases, synonyms = (
        tuple(literals.get(literal, ())) for literal in ("NEEDS", "ALIASES", "SYNONYMS")
    )
    flags = literals.get("FLAGS", {})
    return Header(name, summary.rstrip("."), needs, aliases, flags, synonyms, details.strip())


def _list_missing_members(member: Any, protocol: type) -> list[str]:
    if is_protocol(protocol):
        names = get_protocol_members(protocol)
    elif isinstance(member, protocol):
        # What a base class declares and gives no value.
        names = {name for base in protocol.__mro__ for name in inspect.get_annotations(base)}
    else:
        return [f"the base class {protocol.__name__}"]
    return sorted(name for name in names if not hasattr(member, name))


class Registry(Generic[T]):
    """Extensions of one package.

    Args:
        package: The package, for example ``"sonde.lenses"``.
        kind: Noun for its members in messages, for example ``"lens"``.
        member: Name of the object that each module defines, for example ``"lens"``.
        protocols: Protocols, or base classes, of which each member has to implement at least one.
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

    @property
    def kind(self) -> str:
        """Return the noun for its members."""
        return self._kind

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
                f"{self._kind} {name!r}: sonde has its own {self._kind} {path.stem!r}; rename "
                f"the {'folder' if path.is_dir() else 'file'}"
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

    def list_folder_names(self) -> dict[str, str]:
        """List the subfolder of every extension by name; empty for users' ones and at the top level."""
        folder = self._folder()
        own = {name: path.parent.name for name, path in self._find_paths().items() if path.parent != folder}
        return {name: own.get(name, "") for name in self.names()}

    def get_folder_name(self, name: str) -> str:
        """Return the subfolder of one of sonde's own extensions; empty for others and at the top level."""
        path = self._find_paths().get(name)
        return path.parent.name if path is not None and path.parent != self._folder() else ""

    def get_folder_summary(self, name: str) -> str:
        """Return the first line of the docstring of the folder of `get_folder_name`; empty without one."""
        folder = self.get_folder_name(name)
        return _read_header(folder, self._folder() / folder / "__init__.py").summary if folder else ""

    def is_own(self, name: str) -> bool:
        """Return whether an extension is in the package itself, rather than a user's or another package's."""
        return name in self._find_paths()

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
        headers = self.headers()
        for header in headers:
            if name in header.aliases:
                return importlib.import_module(self._get_dotted_name(paths[header.name]))
        descriptions = {header.name: header.description for header in headers}
        raise UnknownNameError(self._kind, name, self.names(), descriptions=descriptions)

    def _get_member(self, module: ModuleType, name: str) -> T:
        if not hasattr(module, self._member):
            raise InputError(f"{self._kind} {name!r}: {module.__file__} does not define `{self._member}`")
        member = getattr(module, self._member)
        missing_members = [_list_missing_members(member, protocol) for protocol in self._protocols]
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
