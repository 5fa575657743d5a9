"""A library of Java in an archive, as development kits bring theirs."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sonde.base.errors import InputError
from sonde.corpora._archive import read_zip
from sonde.corpora._corpus import Intake, SourceFile


def package_of(path: str) -> str:
    """The package of a source file: ``java.util`` for ``java.base/java/util/List.java``.

    The first folder is a module where it has a dot; archives before Java 9 have no modules.
    """
    folders = PurePosixPath(path).parts[:-1]
    if folders and "." in folders[0]:
        folders = folders[1:]
    return ".".join(folders)


def read_library(
    archive: Path, table: dict[str, str], intake: Intake, *, corpus: str, licence: str, version: str
) -> Iterator[SourceFile]:
    """Yield an archive's files, sorted by path; cluster and repository are the package.

    Files outside any package, such as the modules' own descriptions, are left out.

    Args:
        archive: The archive, read in place.
        table: Suffix to language.
        intake: Counts what is skipped.
        corpus: The corpus, for messages.
        licence: The licence of all of it.
        version: Its version.

    Raises:
        InputError: It is damaged.
    """
    try:
        for path, text, language in read_zip(archive, table, intake, lambda path: bool(package_of(path))):
            package = package_of(path)
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=package,
                repository=package,
                licence=licence,
                version=version,
            )
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"corpus {corpus!r}: {archive} cannot be read as a zip archive: {error}") from error
