"""The source files of an installed Debian package, without its tests."""

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
        every, wanted = suffix_table(()), suffix_table(languages)
        for name in names:
            if name not in status:
                raise InputError(
                    f"corpus {corpus!r}: package {name!r} is not installed; apt-get install {name}"
                )
            packages = [_package(status[name], corpus)]
            if not any(path.endswith(_ARCHIVE) or find_language(path, every) for path in packages[0].paths):
                packages = [_package(status[one], corpus) for one in packages[0].depends if one in status]
            for package in packages:
                yield from _files(package, wanted, intake, corpus)


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
            held = read_library(file, table, intake, corpus=corpus, licence=licence, version=package.version)
            for one in held:
                yield dataclasses.replace(one, path=f"{path}/{one.path}")
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
    """What dpkg says of the installed packages, by name and by name and architecture.

    Raises:
        InputError: There is no dpkg on this machine.
    """
    path = _folder() / "status"
    if not path.is_file():
        raise InputError(f"corpus {corpus!r}: no {path}: this machine has no Debian packages")
    found: dict[str, Mapping[str, str]] = {}
    for stanza in read_document(path, corpus).decode("utf-8", "replace").split("\n\n"):
        said: dict[str, str] = dict(_FIELD.findall(stanza))
        if said.get("Status", "").endswith(" installed"):
            found.setdefault(said["Package"], said)
            found[f"{said['Package']}:{said['Architecture']}"] = said
    return found


def _package(said: Mapping[str, str], corpus: str) -> _Package:
    name = said["Package"]
    # Of what is installed for several architectures at once, each has a list.
    listed = _folder() / "info" / f"{name}:{said['Architecture']}.list"
    if not listed.is_file():
        listed = _folder() / "info" / f"{name}.list"
    paths = os.fsdecode(read_document(listed, corpus)).splitlines()
    depends = map(_NAME.match, re.split(r"[,|]\s*", said.get("Depends", "")))
    return _Package(
        name=name,
        version=said["Version"],
        paths=tuple(sorted(select_safe_paths(path.lstrip("/") for path in paths))),
        depends=tuple(found[0] for found in depends if found),
    )


source = Debian()
