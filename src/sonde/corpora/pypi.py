"""A release of a distribution, read from its wheel or source archive without installing it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from sonde.base.errors import InputError
from sonde.corpora._archive import read_metadata
from sonde.corpora._distribution import licence_of, normalise
from sonde.corpora._index import SETTING, find_source, upload_day
from sonde.corpora._releases import ReleaseSource
from sonde.corpora._web import fetch

_MAX_SECONDS = 600


class PyPI(ReleaseSource):
    """`pypi:NAME==VERSION`: cluster and repository are the distribution, by its normalised name.

    The wheel is preferred and fetched by pip, from the index or folders that pip is set up with. Without a
    wheel for this machine the source archive is fetched as a file: pip would run its build.
    """

    scheme = "pypi"
    release = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
    form = "NAME==VERSION"
    example = "attrs==25.3.0"
    setting = SETTING

    def normalise(self, name: str) -> str:
        """See `sonde.corpora._distribution.normalise`."""
        return normalise(name)

    def bring(self, name: str, version: str, folder: Path) -> None:
        """Have pip put the wheel into a folder, else fetch the source archive.

        Raises:
            InputError: See `ReleaseSource.bring`.
        """
        trouble = _download_wheel(name, version, folder)
        if not list(folder.glob("*.whl")):
            archive = find_source(name, version)
            if archive is None:
                raise InputError(f"corpus 'pypi:{name}=={version}': no such release; pip says: {trouble}")
            fetch(archive, folder)

    def upload_day(self, name: str, version: str) -> str:
        """See `sonde.corpora._index.upload_day`."""
        return upload_day(name, version)

    def licence(self, archive: Path) -> str:
        """The licence that the core metadata name."""
        return licence_of(read_metadata(archive))


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
