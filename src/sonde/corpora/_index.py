"""What a package index says: where a source distribution is, and when a release was uploaded.

`pip download` cannot be used for it: to learn a source distribution's metadata it runs the build of the
distribution, and code under study is never executed. So the file's address is looked up in the index
(PEP 503) that pip would ask, and the file is fetched as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from sonde.corpora._dates import utc_day
from sonde.corpora._distribution import normalise
from sonde.corpora._web import Archive, get

_PYPI = "https://pypi.org/simple"
_AS_JSON = "application/vnd.pypi.simple.v1+json"
_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2")
SETTING = "pip's index-url"
"""What names the index."""


class _Links(HTMLParser):
    """Addresses of a page, as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def pip_setting(name: str) -> str:
    """A setting of pip, such as ``index-url``: from the environment, else from pip's own configuration."""
    value = os.environ.get(f"PIP_{name.upper().replace('-', '_')}")
    if value is not None:
        return value
    command = [sys.executable, "-P", "-m", "pip", "config", "get", f"global.{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def find_source(name: str, version: str) -> Archive | None:
    """The source distribution of a release, in pip's folders first and then in its index; None without one.

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
                if _is_source_of(file.name, name, version):
                    return Archive(file.name, str(file), SETTING)
    if _without_index():
        return None
    page = _page_of(name)
    links = _Links()
    links.feed(get(page, SETTING).decode("utf-8", "replace"))
    for link in links.found:
        address, fragment = urldefrag(urljoin(page, link))
        file_name = unquote(urlsplit(address).path.rpartition("/")[2])
        if _is_source_of(file_name, name, version):
            digest = fragment.removeprefix("sha256=") if "sha256=" in fragment else ""
            return Archive(file_name, address, SETTING, digest)
    return None


def upload_day(name: str, version: str) -> str:
    """The day on which the first file of a release came to the index (PEP 700), in UTC.

    Args:
        name: Normalised name.
        version: The version.

    Returns:
        Empty where no index is to be asked, or it does not say.

    Raises:
        InputError: The index cannot be reached.
    """
    if _without_index():
        return ""
    try:
        told = json.loads(get(_page_of(name), SETTING, accept=_AS_JSON))
        times = [file["upload-time"] for file in told["files"] if _is_of(file["filename"], version)]
        return min(map(utc_day, times))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        # Another form of page, or a release without times or files.
        return ""


def _is_of(file_name: str, version: str) -> bool:
    """Whether a file of a distribution's page is of one release."""
    parse = parse_wheel_filename if file_name.endswith(".whl") else parse_sdist_filename
    try:
        return parse(file_name)[1] == Version(version)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False


def _without_index() -> bool:
    return pip_setting("no-index").lower() in ("1", "true", "yes", "on")


def _page_of(name: str) -> str:
    """Address of a distribution's page in the index that pip would ask."""
    return f"{(pip_setting('index-url') or _PYPI).rstrip('/')}/{name}/"


def _is_source_of(file_name: str, name: str, version: str) -> bool:
    for suffix in _SUFFIXES:
        stem = file_name.removesuffix(suffix)
        if stem != file_name:
            head, _, tail = stem.rpartition("-")
            return normalise(head) == name and tail == version
    return False
