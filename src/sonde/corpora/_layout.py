"""What is one unit in a folder of code: its projects, and the packages of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sonde.results.verdict import ENOUGH_CLUSTERS

_MARKERS = (
    ".git",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "build.xml",
    "package.json",
    "go.mod",
    "composer.json",
    "Gemfile",
)
_SOURCE_ROOT = "src"


def is_project(folder: Path) -> bool:
    """Whether a folder is a project of its own: a git repository, or one with a build file."""
    # `Path` raises where a folder cannot be looked at.
    return any(os.path.exists(folder / marker) for marker in _MARKERS)  # noqa: PTH110


def projects_of(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that are projects by the paths of a repository's files; it is one itself."""
    found = (PurePosixPath(path) for path in paths)
    return frozenset({".", *(str(path.parent) for path in found if path.name in _MARKERS)})


def holds_projects(folder: Path) -> bool:
    """Whether a folder is no project itself and has at least one project right below it."""
    if is_project(folder):
        return False
    below = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return any(is_project(entry) for entry in below)


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one project.

    A file's package is the uppermost folder on its way down that itself holds source files; namespace
    folders such as ``com/example`` and the source root ``src`` are passed through. Where all files are in one
    package, that is passed through as well. A file right in the project, in its source root or in its one
    package is a package by itself, named by its stem.

    Attributes:
        folders: Folders that directly hold source files.
        passed: Folders among them that are passed through.
    """

    folders: frozenset[str]
    passed: frozenset[str] = frozenset({_SOURCE_ROOT})

    @classmethod
    def of(cls, paths: Iterable[str]) -> Packages:
        """The packages of a project by the paths of its source files."""
        listed = list(paths)
        found = cls(frozenset(str(PurePosixPath(path).parent) for path in listed))
        while len(only := {found.package(path) for path in listed}) == 1 and only <= found.folders:
            found = cls(found.folders, found.passed | only)
        return found

    def package(self, path: str) -> str:
        """Name of the package of a path, with forward slashes.

        >>> project = Packages.of(["src/web/app.py", "src/web/db/pool.py", "setup.py"])
        >>> project.package("src/web/db/pool.py"), project.package("setup.py")
        ('src/web', 'setup')
        """
        parts = PurePosixPath(path).parts
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder in self.folders and folder not in self.passed:
                return folder
        return PurePosixPath(path).stem


def clusters_of(units: Mapping[str, str]) -> dict[str, str]:
    """The packages of one repository by the paths of its files, else its files.

    Files where packages are fewer than a verdict needs and files are not.

    Args:
        units: Path to unit, as sources give them: ``file``, or ``function`` for what was cut out of a file,
            whose path is then ``file#id``; one without a file belongs to no package.

    Returns:
        Path to package; empty where there is only one.
    """
    files = _files(units)
    packages = Packages.of(files.values())
    clusters = {path: packages.package(file) for path, file in files.items()}
    number = len(set(clusters.values()))
    return files_of(units) or (clusters if number > 1 else {}) if number < ENOUGH_CLUSTERS else clusters


def files_of(units: Mapping[str, str]) -> dict[str, str]:
    """Each file as a cluster, by the paths of `clusters_of`; empty where they are too few also."""
    clusters = {path: str(PurePosixPath(file).with_suffix("")) for path, file in _files(units).items()}
    return clusters if len(set(clusters.values())) >= ENOUGH_CLUSTERS else {}


def _files(units: Mapping[str, str]) -> dict[str, str]:
    found = {path: path.rpartition("#")[0] if unit == "function" else path for path, unit in units.items()}
    return {path: file for path, file in found.items() if file}
