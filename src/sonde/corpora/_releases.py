"""What the sources of released packages share: which releases are asked for, their archives, their days.

An archive is fetched once, kept in the cache (`sonde cache info`) and read in place: nothing of it is
unpacked, built, installed or run.
"""

from __future__ import annotations

import dataclasses
import re
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from sonde.base.errors import InputError, UsageError
from sonde.base.files import cache_folder, write_atomic
from sonde.corpora._archive import Member, read_tar, read_zip
from sonde.corpora._bounded import read_document
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._distribution import is_test
from sonde.corpora._entries import named_file
from sonde.corpora._walk import suffix_table

_ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2")


class ReleaseSource(ABC):
    """`SCHEME:RELEASE`: cluster and repository are the package, by its name.

    Several releases, of one package or of many, are one corpus where commas stand between them, or where
    ``SCHEME:FILE.txt`` names a file with one a line; their paths are then below ``NAME-VERSION/``.

    Attributes:
        scheme: What stands before the colon, and the folder of the cache.
        release: A release as it is written: its groups are name and version.
        form: The same for a person.
        example: One that there is.
        setting: Which setting of which program names the index.
    """

    scheme: ClassVar[str]
    release: ClassVar[re.Pattern[str]]
    form: ClassVar[str]
    example: ClassVar[str]
    setting: ClassVar[str]

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the files of each release without its tests, sorted by path.

        Raises:
            InputError: There is no such release, it cannot be reached, or its archive is damaged.
            UsageError: The argument names no release.
        """
        releases = self._releases(argument)
        for name, version in releases:
            for file in self._files(name, version, languages, intake):
                if len(releases) > 1:
                    file = dataclasses.replace(file, path=f"{name}-{version}/{file.path}")
                yield file

    def dated_files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """The same, as old as their release is in the index; they may be older.

        Raises:
            InputError: As `files`, or the index does not say when a release was uploaded.
            UsageError: As `files`.
        """
        days = {release: self._uploaded(*release) for release in self._releases(argument)}
        for file in self.files(argument, languages, intake):
            yield dataclasses.replace(file, dates=((0, days[file.repository, file.version]),))

    @abstractmethod
    def bring(self, name: str, version: str, folder: Path) -> None:
        """Fetch the archive of a release into a folder.

        Raises:
            InputError: There is no such release, it cannot be reached, or is not what the index promises.
        """

    @abstractmethod
    def upload_day(self, name: str, version: str) -> str:
        """The day of a release as the index says it; empty where it does not.

        Raises:
            InputError: The index cannot be reached.
        """

    @abstractmethod
    def licence(self, archive: Path) -> str:
        """What an archive says of its licence; empty where it says nothing."""

    def normalise(self, name: str) -> str:
        """A package's name, as the index compares it."""
        return name

    def members(self, archive: Path, table: dict[str, str], intake: Intake) -> Iterator[Member]:
        """The source files of an archive."""
        read = read_zip if archive.suffix in (".whl", ".zip") else read_tar
        return read(archive, table, intake, lambda path: not is_test(path))

    def _releases(self, argument: str) -> list[tuple[str, str]]:
        """The names and versions that are asked for.

        Raises:
            InputError: A file that cannot be read.
            UsageError: Something else than names and versions.
        """
        asked = argument.split(",")
        if argument.endswith(".txt"):
            raw = read_document(named_file(self.scheme, argument), f"{self.scheme}:{argument}")
            lines = (line.partition("#")[0].strip() for line in raw.decode("utf-8", "replace").splitlines())
            asked = [line for line in lines if line]
        found = [self.release.fullmatch(one.strip()) for one in asked]
        if not found or not all(found):
            wrong = next((one for one, match in zip(asked, found, strict=True) if match is None), "")
            raise UsageError(
                f"corpus '{self.scheme}:{argument}': {wrong!r} is no release; name it as "
                f"{self.scheme}:{self.form}, such as {self.scheme}:{self.example}"
            )
        return list(dict.fromkeys((self.normalise(one[1]), one[2]) for one in found if one))

    def _files(
        self, name: str, version: str, languages: tuple[str, ...], intake: Intake
    ) -> Iterator[SourceFile]:
        archive = self._archive(name, version)
        try:
            licence = self.licence(archive)
            for path, text, language in self.members(archive, suffix_table(languages), intake):
                yield SourceFile(
                    path=path,
                    text=text,
                    language=language,
                    cluster=name,
                    repository=name,
                    licence=licence,
                    version=version,
                )
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
            raise InputError(
                f"{self._named(name, version)}: {archive} is damaged: {error}; delete it"
            ) from error

    def _archive(self, name: str, version: str) -> Path:
        """The release's archive, from the cache or fetched into it."""
        folder = cache_folder(self.scheme) / name / version
        if not (kept := _kept(folder)):
            self.bring(name, version, folder)
            kept = _kept(folder)
        return kept[0]

    def _uploaded(self, name: str, version: str) -> str:
        """The day of a release, from the cache or the index.

        Raises:
            InputError: The index cannot be reached, or does not say.
        """
        kept = cache_folder(self.scheme) / name / version / "uploaded"
        if kept.is_file():
            return kept.read_text("utf-8")
        day = self.upload_day(name, version)
        if not day:
            raise InputError(
                f"{self._named(name, version)}: the index does not say when it was uploaded; ask one that "
                f"does ({self.setting}), such as the public one, or read its repository with git:PATH"
            )
        write_atomic(kept, day)
        return day

    def _named(self, name: str, version: str) -> str:
        """A release as the corpus that it is, for messages."""
        return f"corpus '{self.scheme}:{self.form.replace('NAME', name).replace('VERSION', version)}'"


def _kept(folder: Path) -> list[Path]:
    """The archives in a folder, the preferred one first."""
    archives = [path for path in folder.iterdir() if path.name.endswith(_ARCHIVES)] if folder.is_dir() else []
    return sorted(archives, key=lambda path: (path.suffix != ".whl", path.name))
