"""The source files of an installed Debian package, without its tests.

``debian:libruby`` reads one package; separate several by commas.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sonde.base.errors import InputError, UsageError
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.licences import copyright_licence
from sonde.corpora.engine.releases import is_test, read_library, select_safe_paths
from sonde.corpora.engine.source_files import find_language, read_document, read_text, suffix_table

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9-]+)?")


_FIELD = re.compile(r"^(Package|Status|Architecture|Version|Depends): *(.*)$", re.MULTILINE)


_ARCHIVE = "/src.zip"


@dataclass(frozen=True, slots=True)
class _Package:
    """An installed package.

    Attributes:
        name: Its name.
        version: Its version.
        paths: Its files and folders, relative to the root.
        depends: What it depends on, alternatives included.
    """

    name: str
    version: str
    paths: tuple[str, ...]
    depends: tuple[str, ...]


class Debian:
    """`debian:PACKAGE`, or several with commas: repository is the package, clusters are folders.

    What is installed is read as dpkg lists it (in ``DPKG_ADMINDIR``, else ``/var/lib/dpkg``, below
    ``DPKG_ROOT``). A package without sources of its own, such as ``golang-src`` or ``libruby``, stands for
    those that it depends on. A ``src.zip`` is read as `jdk` reads it: cluster and repository are its
    packages.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the packages' files in the order in which they are named, sorted by path.

        Raises:
            InputError: A package that is not installed.
            UsageError: No package is named.
        """
        names = argument.split(",")
        if not all(map(_NAME.fullmatch, names)):
            raise UsageError(f"corpus 'debian:{argument}': name it as debian:PACKAGE, such as debian:libruby")
        corpus = f"debian:{argument}"
        status = _status(corpus)
        all_suffixes, table = suffix_table(()), suffix_table(languages)
        for name in names:
            if name not in status:
                raise InputError(
                    f"corpus {corpus!r}: package {name!r} is not installed; apt-get install {name}"
                )
            packages = [_package(status[name], corpus)]
            if not any(
                path.endswith(_ARCHIVE) or find_language(path, all_suffixes) for path in packages[0].paths
            ):
                packages = [
                    _package(status[dependency], corpus)
                    for dependency in packages[0].depends
                    if dependency in status
                ]
            for package in packages:
                yield from _files(package, table, intake, corpus)


def _files(
    package: _Package, table: dict[str, str], intake: SkipCounter, corpus: str
) -> Iterator[SourceFile]:
    root = Path(os.environ.get("DPKG_ROOT") or "/")
    licence = copyright_licence(root / "usr/share/doc" / package.name / "copyright", corpus)
    for path in package.paths:
        file, language = root / path, find_language(path, table)
        if path.endswith(_ARCHIVE):
            if file.is_symlink() or not file.is_file():
                intake.note("not a regular file", path)
                continue
            library_files = read_library(
                file, table, intake, corpus=corpus, licence=licence, version=package.version
            )
            for library_file in library_files:
                yield dataclasses.replace(library_file, path=f"{path}/{library_file.path}")
        elif language and not is_test(path) and (text := read_text(file, path, intake)) is not None:
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=str(PurePosixPath(path).parent),
                repository=package.name,
                licence=licence,
                version=package.version,
            )


def _folder() -> Path:
    return Path(os.environ.get("DPKG_ADMINDIR") or "/var/lib/dpkg")


def _status(corpus: str) -> dict[str, Mapping[str, str]]:
    """Read dpkg's fields of the installed packages, keyed by name and by ``name:architecture``.

    Raises:
        InputError: There is no dpkg on this machine.
    """
    path = _folder() / "status"
    if not path.is_file():
        raise InputError(f"corpus {corpus!r}: no {path}: this machine has no Debian packages")
    packages: dict[str, Mapping[str, str]] = {}
    for stanza in read_document(path, corpus).decode("utf-8", "replace").split("\n\n"):
        fields: dict[str, str] = dict(_FIELD.findall(stanza))
        if fields.get("Status", "").endswith(" installed"):
            packages.setdefault(fields["Package"], fields)
            packages[f"{fields['Package']}:{fields['Architecture']}"] = fields
    return packages


def _package(fields: Mapping[str, str], corpus: str) -> _Package:
    name = fields["Package"]
    # Of what is installed for several architectures at once, each has a list.
    list_file = _folder() / "info" / f"{name}:{fields['Architecture']}.list"
    if not list_file.is_file():
        list_file = _folder() / "info" / f"{name}.list"
    paths = os.fsdecode(read_document(list_file, corpus)).splitlines()
    depends = map(_NAME.match, re.split(r"[,|]\s*", fields.get("Depends", "")))
    return _Package(
        name=name,
        version=fields["Version"],
        paths=tuple(sorted(select_safe_paths(path.lstrip("/") for path in paths))),
        depends=tuple(match[0] for match in depends if match),
    )


source = Debian()
