"""Extensions from outside: a file or folder that a user hands in, or what an installed package offers.

What is handed in goes by its public name from then on, in this process and in those that it starts: they
inherit the environment variable that holds where each one lies.
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
    """Whether a name is the path of a ``.py`` file or of a folder rather than a public name."""
    return name.endswith(".py") or name.startswith((".", os.sep)) or (os.sep in name and Path(name).is_dir())


def remember(package: str, path: Path) -> None:
    """Make an extension known by its stem, here and in processes started from here."""
    held = json.loads(os.environ.get(_VARIABLE, "{}"))
    held.setdefault(package, {})[path.stem] = str(path.resolve())
    os.environ[_VARIABLE] = json.dumps(held)


def handed_in() -> dict[str, str]:
    """The part of the environment by which another process knows what was handed in here."""
    return {_VARIABLE: os.environ[_VARIABLE]} if _VARIABLE in os.environ else {}


def remembered(package: str) -> dict[str, Path]:
    """What was handed in for a package, by public name."""
    held = json.loads(os.environ.get(_VARIABLE, "{}"))
    return {name: Path(path) for name, path in held.get(package, {}).items()}


def offered(package: str) -> dict[str, EntryPoint]:
    """What installed packages offer in the entry-point group of a package, by name; nothing is imported.

    What sonde itself offers so (`sonde.papers`) is hidden by no other package.
    """
    return _offered(package, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _offered(package: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The same for one path of modules: reading the metadata of all distributions takes a while."""
    return {point.name: point for point in sorted(entry_points(group=package), key=is_own)}


def is_own(point: EntryPoint) -> bool:
    """Whether sonde itself offers an extension."""
    return point.module.partition(".")[0] == __name__.partition(".")[0]


def published(group: str, name: str) -> Any:
    """What a paper published of something with a name here, out of a group of entry points, or None."""
    return _published(group, name, tuple(sys.path))


@functools.lru_cache(maxsize=1024)
def _published(group: str, name: str, path: tuple[str, ...]) -> Any:
    point = offered(group).get(name)
    return None if point is None else point.load()


def check_published(group: str) -> None:
    """Refuse to do as published where nothing is known of it: sonde was not installed, or too early.

    Raises:
        InputError: The group is empty.
    """
    if not offered(group):
        raise InputError("what papers published is not registered; install sonde again (pip install -e .)")


def source_of(point: EntryPoint) -> Path | None:
    """The file of what a package offers, None where there is none to read; nothing is imported."""
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
    """Hash of a file, or of all files of a folder."""
    if path.is_file():
        return hash_text(path.read_text(encoding="utf-8"))
    files = sorted(one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return fingerprint([(str(one.relative_to(path)), one.read_bytes().hex()) for one in files])


def module_of(path: Path, package: str, what: str) -> ModuleType:
    """Import a file, or a folder with an ``__init__.py``, as a module below a package.

    Args:
        path: The file or folder.
        package: The package whose registry it joins.
        what: What it is, for messages.

    Raises:
        InputError: There is no such file, or it cannot be imported.
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
    """The public name of an extension by the full name of its module."""
    return re.sub(r"^_outside_[0-9a-f]{8}_", "", module.rpartition(".")[2])


def module_offered(point: EntryPoint, what: str) -> ModuleType:
    """Import what an installed package offers.

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
