"""A release of a distribution, read from its wheel or source archive without installing it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.base.files import cache_folder, write_atomic
from sonde.corpora._archive import read_metadata, read_tar, read_zip
from sonde.corpora._bounded import read_document
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._distribution import is_test, licence_of, normalise
from sonde.corpora._entries import named_file
from sonde.corpora._index import fetch, find_source, upload_day
from sonde.corpora._walk import suffix_table

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_MAX_SECONDS = 600
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")


class PyPI:
    """`pypi:NAME==VERSION`: cluster and repository are the distribution, by its normalised name.

    Several releases, of one distribution or of many, are one corpus where commas stand between them, or where
    ``pypi:FILE.txt`` names a file with one a line; their paths are then below ``NAME-VERSION/``.

    The wheel is preferred and fetched by pip, from the index or folders that pip is set up with. Without a
    wheel for this machine the source archive is fetched as a file: pip would run its build. Archives are kept
    in the folder ``pypi`` of the cache (`sonde cache info`), read in place, never installed.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the files of each release without its tests, sorted by path.

        Raises:
            InputError: There is no such release, it cannot be reached, or its archive is damaged.
            UsageError: The argument is not ``NAME==VERSION``.
        """
        releases = _releases(argument)
        for name, version in releases:
            for file in _release(name, version, languages, intake):
                if len(releases) > 1:
                    file = dataclasses.replace(file, path=f"{name}-{version}/{file.path}")
                yield file

    def dated_files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """The same, as old as the first upload of their release to the index; they may be older.

        Raises:
            InputError: As `files`, or the index does not say when a release was uploaded.
            UsageError: As `files`.
        """
        days = {release: _uploaded(*release) for release in _releases(argument)}
        for file in self.files(argument, languages, intake):
            yield dataclasses.replace(file, dates=((0, days[file.repository, file.version]),))


def _releases(argument: str) -> list[tuple[str, str]]:
    """The normalised names and the versions that are asked for.

    Raises:
        InputError: A file that cannot be read.
        UsageError: Something else than names and versions.
    """
    asked = argument.split(",")
    if argument.endswith(".txt"):
        raw = read_document(named_file("pypi", argument), f"pypi:{argument}")
        lines = (line.partition("#")[0].strip() for line in raw.decode("utf-8", "replace").splitlines())
        asked = [line for line in lines if line]
    found = [_REQUIREMENT.fullmatch(one.strip()) for one in asked]
    if not found or not all(found):
        wrong = next((one for one, match in zip(asked, found, strict=True) if match is None), "")
        raise UsageError(
            f"corpus 'pypi:{argument}': {wrong!r} is no release; name it as pypi:NAME==VERSION, such as "
            "pypi:attrs==25.3.0"
        )
    return list(dict.fromkeys((normalise(one[1]), one[2]) for one in found if one))


def _release(name: str, version: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
    archive = _archive(name, version)
    table = suffix_table(languages)
    read = read_zip if archive.suffix in (".whl", ".zip") else read_tar
    try:
        licence = licence_of(read_metadata(archive))
        for path, text, language in read(archive, table, intake, lambda path: not is_test(path)):
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
            f"corpus 'pypi:{name}=={version}': {archive} is damaged: {error}; delete it"
        ) from error


def _uploaded(name: str, version: str) -> str:
    """The day of a release, from the cache or the index.

    Raises:
        InputError: The index cannot be reached, or does not say.
    """
    kept = cache_folder("pypi") / name / version / "uploaded"
    if kept.is_file():
        return kept.read_text("utf-8")
    day = upload_day(name, version)
    if not day:
        raise InputError(
            f"corpus 'pypi:{name}=={version}': the index does not say when it was uploaded; ask one that "
            "does (pip's index-url), such as PyPI, or read its repository with git:PATH"
        )
    write_atomic(kept, day)
    return day


def _archive(name: str, version: str) -> Path:
    """The release's archive, from the cache or fetched into it."""
    folder = cache_folder("pypi") / name / version
    kept = _kept(folder)
    if kept is None:
        trouble = _download_wheel(name, version, folder)
        kept = _kept(folder)
        if kept is None:
            archive = find_source(name, version)
            if archive is None:
                raise InputError(f"corpus 'pypi:{name}=={version}': no such release; pip says: {trouble}")
            kept = fetch(archive, folder)
    return kept


def _kept(folder: Path) -> Path | None:
    archives = [path for path in folder.iterdir() if path.name.endswith(_ARCHIVES)] if folder.is_dir() else []
    return min(archives, key=lambda path: (path.suffix != ".whl", path.name), default=None)


def _download_wheel(name: str, version: str, folder: Path) -> str:
    """Have pip put the wheel into a folder; what pip says where it has none for this machine."""
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--quiet", "--disable-pip-version-check")
    # -P: a file pip.py in the folder that this is called in is not taken for pip.
    command = [sys.executable, "-P", "-m", "pip", "download", *options]
    command += ["--retries", "1", "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, f"{name}=={version}"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=_MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"pip is not done after {_MAX_SECONDS} seconds"
    said = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("ERROR")]
    return (errors or said or [""])[-1].removeprefix("ERROR:").strip()


source = PyPI()
