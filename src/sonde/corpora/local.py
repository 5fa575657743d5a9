"""A folder of code on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora._copyright import copyright_licence
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._decode import read_text
from sonde.corpora._layout import Packages, holds_projects, is_project
from sonde.corpora._walk import BUILT, NOT_SOURCE, language_of, suffix_table, walk


def _is_built(root: Path, path: str) -> bool:
    """Whether a folder holds what a build made: a package may be called ``build``, a project's folder not."""
    pure = PurePosixPath(path)
    if pure.name in BUILT:
        return is_project(root / pure.parent)
    return pure.name in NOT_SOURCE or pure.name.endswith(".egg-info")


class Local:
    """`local:DIR`, or one file as `local:FILE`.

    A folder that holds projects (see `sonde.corpora._layout`) has each folder right below it as cluster
    and repository, and its own files under its own name. Any other folder is one repository by its name,
    with its packages as clusters. A project that is a source package of Debian has the licence that its
    ``debian/copyright`` says of all files. Hidden folders, virtual environments, `__pycache__` and folders of
    builds are left out; tests are code too and stay.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the folder's files, sorted by folder and name.

        Raises:
            InputError: DIR does not exist.
            UsageError: DIR is missing.
        """
        if not argument:
            raise UsageError("corpus 'local' needs a folder; name it as local:DIR")
        root = expand_home(argument)
        if not root.exists():
            raise InputError(f"corpus 'local:{argument}': no such file or folder")
        table = suffix_table(languages)
        if not root.is_dir():
            paths = [root.name]
            root = root.absolute().parent
        else:
            paths = [
                path for path in walk(root, intake, partial(_is_built, root)) if language_of(path, table)
            ]
        name = root.resolve().name
        packages = None if holds_projects(root) else Packages.of(paths)
        licences: dict[str, str] = {}
        for path in paths:
            text = read_text(root / path, path, intake)
            language = language_of(path, table)
            if text is None or language is None:
                continue
            if packages is None:
                parts = PurePosixPath(path).parts
                cluster = repository = parts[0] if len(parts) > 1 else name
            else:
                cluster, repository = packages.package(path), name
            if packages is None and cluster not in licences:
                told = root / cluster / "debian/copyright"
                licences[cluster] = copyright_licence(told, f"local:{argument}")
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=cluster,
                repository=repository,
                licence=licences.get(cluster, ""),
            )


source = Local()
