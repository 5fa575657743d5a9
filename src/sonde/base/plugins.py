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

_VARIABLE = "SONDE_OUTSIDE"


def is_path(name: str) -> bool:
    """Return whether a name is the path of a ``.py`` file or folder rather than a public name."""
    return name.endswith(".py") or name.startswith((".", os.sep)) or (os.sep in name and Path(name).is_dir())


def remember(package: str, path: Path) -> None:
    """Register an extension by its stem, for this process and its children."""
    held = json.loads(os.environ.get(_VARIABLE, "{}"))
    held.setdefault(package, {})[path.stem] = str(path.resolve())
    os.environ[_VARIABLE] = json.dumps(held)


def handed_in() -> dict[str, str]:
    """Return the environment variables by which another process finds the registered extensions."""
    return {_VARIABLE: os.environ[_VARIABLE]} if _VARIABLE in os.environ else {}


def remembered(package: str) -> dict[str, Path]:
    """Return the paths of extensions that were registered for a package, by public name."""
    held = json.loads(os.environ.get(_VARIABLE, "{}"))
    return {name: Path(path) for name, path in held.get(package, {}).items()}


def offered(package: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing them.

    No other package overrides an entry point of sonde itself (`sonde.papers`).
    """
    return _offered(package, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _offered(package: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Find entry points once per ``sys.path``: reading the metadata of all distributions is slow."""
    return {point.name: point for point in sorted(entry_points(group=package), key=is_own)}


def is_own(point: EntryPoint) -> bool:
    """Return whether an entry point belongs to sonde itself."""
    return point.module.partition(".")[0] == __name__.partition(".")[0]


def published(group: str, name: str) -> Any:
    """Load the object that a paper registered under `name` in an entry-point group; None if there is none."""
    return _published(group, name, tuple(sys.path))


@functools.lru_cache(maxsize=1024)
def _published(group: str, name: str, path: tuple[str, ...]) -> Any:
    point = offered(group).get(name)
    return None if point is None else point.load()


def check_published(group: str) -> None:
    """Check that papers have registered entry points in `group`.

    Raises:
        InputError: The group is empty: sonde is not installed, or was before these existed.
    """
    if not offered(group):
        raise InputError("what papers published is not registered; install sonde again (pip install -e .)")


def source_of(point: EntryPoint) -> Path | None:
    """Return the source file of an entry point without importing it; None if there is no file."""
    first, *below = point.module.split(".")
    spec = importlib.util.find_spec(first)
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    if not below and spec is not None and spec.origin is not None:
        return Path(spec.origin)
    for part in below:
        places = [place / part for place in places]
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def content_hash(path: Path) -> str:
    """Hash a file, or all files of a folder."""
    if path.is_file():
        return hash_text(path.read_text(encoding="utf-8"))
    files = sorted(one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return fingerprint([(str(one.relative_to(path)), one.read_bytes().hex()) for one in files])


def module_of(path: Path, package: str, what: str) -> ModuleType:
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
        raise InputError(f"{what}: no such file" if path.suffix == ".py" else f"{what}: {file} is not there")
    name = f"{package}._outside_{hash_text(str(path.resolve()))[:8]}_{path.stem}"
    if name not in sys.modules:
        within = [str(path)] if path.is_dir() else None
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=within)
        assert spec is not None and spec.loader is not None, file
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"{what}: {_unimportable(error)}") from error
    return sys.modules[name]


def public_stem(module: str) -> str:
    """Return the public name of an extension from the full name of its module."""
    return re.sub(r"^_outside_[0-9a-f]{8}_", "", module.rpartition(".")[2])


def module_offered(point: EntryPoint, what: str) -> ModuleType:
    """Import the module of an entry point.

    Raises:
        InputError: It cannot be imported.
    """
    try:
        return importlib.import_module(point.module)
    except Exception as error:
        origin = point.dist.name if point.dist else point.module
        raise InputError(f"{what} of {origin}: {_unimportable(error)}") from error


def _unimportable(error: Exception) -> str:
    line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
    return f"it cannot be imported: {type(error).__name__}: {error}{line}".splitlines()[0]
