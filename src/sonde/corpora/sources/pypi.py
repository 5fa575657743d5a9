"""A release of a distribution, read from its wheel or source archive without installing it.

``pypi:attrs==25.3.0`` names a release; separate several by commas, or name a ``.txt`` file of them.

The package index says where a source distribution is and when a release was uploaded. `pip download` cannot
be used for a source distribution: to learn its metadata it runs the build of the distribution, and code under
study is never executed. So the file's address is looked up in the index (PEP 503) that pip would ask, and the
file is fetched as it is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from packaging.tags import sys_tags
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import parse_utc_day
from sonde.corpora.engine.releases import (
    Archive,
    ReleaseSource,
    describe_download,
    download_archive,
    http_get,
    parse_licence,
    read_metadata,
)

SYNONYMS = ("pip package", "python package")

_PYPI = "https://pypi.org/simple"


_AS_JSON = "application/vnd.pypi.simple.v1+json"


_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2")


SETTING = "pip's index-url"
"""What names the index."""


class _Links(HTMLParser):
    """The link addresses of an HTML page, as written."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def pip_setting(name: str) -> str:
    """Read a setting of pip, such as ``index-url``, from the environment or pip's configuration."""
    value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
    if value is not None:
        return value
    command = [sys.executable, "-P", "-m", "pip", "config", "get", f"global.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def find_source(name: str, version: str) -> Archive | None:
    """Find the source distribution of a release in pip's folders, else in its index; None without one.

    Args:
        name: Normalised name.
        version: The version as it is in the file's name.

    Raises:
        InputError: The index cannot be reached.
    """
    for location in pip_setting("find-links").split():
        folder = Path(urlsplit(location).path if location.startswith("file:") else location)
        if folder.is_dir():
            for file in sorted(folder.iterdir()):
                if _is_source_archive(file.name, name, version):
                    return Archive(file.name, str(file), SETTING)
    if _without_index():
        return None
    page = _index_address(name)
    links = _Links()
    links.feed(http_get(page, SETTING).decode("utf-8", "replace"))
    for link in links.found:
        address, fragment = urldefrag(urljoin(page, link))
        file_name = unquote(urlsplit(address).path.rpartition("/")[2])
        if _is_source_archive(file_name, name, version):
            digest = fragment.removeprefix("sha256=") if "sha256=" in fragment else ""
            return Archive(file_name, address, SETTING, digest)
    return None


def _belongs_to_release(file_name: str, version: str) -> bool:
    """Return whether a file of a distribution's page belongs to a release."""
    parse = parse_wheel_filename if file_name.endswith(".whl") else parse_sdist_filename
    try:
        return parse(file_name)[1] == Version(version)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False


def _without_index() -> bool:
    return pip_setting("no-index").lower() in ("1", "true", "yes", "on")


def _index_address(name: str) -> str:
    """Return the address of a distribution's page in the index that pip would ask."""
    return f"{(pip_setting('index-url') or _PYPI).rstrip('/')}/{name}/"


def _is_source_archive(file_name: str, name: str, version: str) -> bool:
    for suffix in _SUFFIXES:
        stem = file_name.removesuffix(suffix)
        if stem != file_name:
            head, _, tail = stem.rpartition("-")
            return canonicalize_name(head) == name and tail == version
    return False


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
        """Normalise the name of a distribution (PEP 503)."""
        return canonicalize_name(name)

    def download(self, name: str, version: str, folder: Path, tell: Callable[[str], None]) -> None:
        """Download the wheel with pip, else the source archive.

        Raises:
            InputError: See `ReleaseSource.download`.
        """
        if (size := _find_wheel_size(name, version)) != 0:
            tell(describe_download(f"the wheel of {name} {version}", size))
        trouble = _download_wheel(name, version, folder)
        if not list(folder.glob("*.whl")):
            archive = find_source(name, version)
            if archive is None:
                raise InputError(f"corpus 'pypi:{name}=={version}': no such release; pip says: {trouble}")
            download_archive(archive, folder, tell)

    def upload_day(self, name: str, version: str) -> str:
        """Return the UTC day on which the first file of a release was uploaded (PEP 700).

        Returns:
            Empty where no index is to be asked, or it does not say.

        Raises:
            InputError: The index cannot be reached.
        """
        if _without_index():
            return ""
        try:
            record = json.loads(http_get(_index_address(name), SETTING, accept=_AS_JSON))
            times = [
                file["upload-time"]
                for file in record["files"]
                if _belongs_to_release(file["filename"], version)
            ]
            return min(map(parse_utc_day, times))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            # Another form of page, or a release without times or files.
            return ""

    def licence(self, archive: Path) -> str:
        """Return the licence that the core metadata names."""
        return parse_licence(read_metadata(archive))


def _find_wheel_size(name: str, version: str) -> int | None:
    """Return the bytes of the largest wheel that this machine takes, if the index says (PEP 700)."""
    if _without_index():
        return None
    supported_tags = frozenset(sys_tags())
    try:
        record = json.loads(http_get(_index_address(name), SETTING, accept=_AS_JSON))
        sizes = [
            int(file["size"])
            for file in record["files"]
            if file["filename"].endswith(".whl")
            and _belongs_to_release(file["filename"], version)
            and not parse_wheel_filename(file["filename"])[3].isdisjoint(supported_tags)
        ]
    except (InputError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        # pip says what is wrong; another form of page has no sizes.
        return None
    return max(sizes, default=0)


def _download_wheel(name: str, version: str, folder: Path) -> str:
    """Download the wheel with pip; return pip's error if there is none for this machine."""
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
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1].removeprefix("ERROR:").strip()


source = PyPI()
