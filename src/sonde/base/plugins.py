"""External extensions: files or folders of a user, and entry points of installed packages.

A user's extension is known by its public name from its first use on, in this process and its children: they
inherit the environment variable with its path.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint, hash_text

_PATHS_ENV = "SONDE_OUTSIDE"


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
    return entry_point.module.partition(".")[0] == __name__.partition(".")[0]


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
        raise InputError("what papers published is not registered; install sonde again (pip install -e .)")


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
    name = f"{package}._outside_{hash_text(str(path.resolve()))[:8]}_{path.stem}"
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
    return re.sub(r"^_outside_[0-9a-f]{8}_", "", module.rpartition(".")[2])


def import_entry_point(entry_point: EntryPoint, label: str) -> ModuleType:
    """Import the module of an entry point.

    Raises:
        InputError: It cannot be imported.
    """
    try:
        return importlib.import_module(entry_point.module)
    except Exception as error:
        origin = entry_point.dist.name if entry_point.dist else entry_point.module
        raise InputError(f"{label} of {origin}: {_describe_import_error(error)}") from error


def _describe_import_error(error: Exception) -> str:
    line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
    return f"it cannot be imported: {type(error).__name__}: {error}{line}".splitlines()[0]
