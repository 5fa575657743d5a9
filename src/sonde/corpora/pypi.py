"""A release of a distribution, read from its wheel or source archive without installing it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.base.files import cache_folder
from sonde.corpora._archive import read_metadata, read_tar, read_zip
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._distribution import is_test, licence_of, normalise
from sonde.corpora._index import fetch, find_source
from sonde.corpora._walk import suffix_table

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_MAX_SECONDS = 600
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2")


class PyPI:
    """`pypi:NAME==VERSION`: cluster and repository are the distribution, by its normalised name.

    The wheel is preferred and fetched by pip, from the index or folders that pip is set up with. Without
    a wheel for this machine the source archive is fetched as a file: pip would run its build. Archives are
    kept in the folder ``pypi`` of the cache (`sonde cache info`), read in place, never installed.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield the release's files without its tests, sorted by path.

        Raises:
            InputError: There is no such release, it cannot be reached, or its archive is damaged.
            UsageError: The argument is not ``NAME==VERSION``.
        """
        found = _REQUIREMENT.fullmatch(argument)
        if found is None:
            raise UsageError(
                f"corpus 'pypi:{argument}': name it as pypi:NAME==VERSION, such as pypi:attrs==25.3.0"
            )
        name, version = normalise(found[1]), found[2]
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
            raise InputError(f"corpus 'pypi:{argument}': {archive} is damaged: {error}; delete it") from error


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
