"""A release of a JavaScript package, read from its tarball without installing it.

``npm:express@4.19.2`` names a release; separate several by commas, or name a ``.txt`` file of them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast
from urllib.parse import quote, urljoin

from sonde.base.errors import InputError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import SkipCounter, parse_utc_day
from sonde.corpora.engine.releases import (
    Archive,
    Member,
    ReleaseSource,
    download_archive,
    http_get,
    read_metadata_file,
)
from sonde.corpora.engine.source_files import BUILD_FOLDERS, GENERATED_PATH, is_handwritten, read_document

SYNONYMS = ("node package", "javascript package")

_PUBLIC = "https://registry.npmjs.org"


_NOT_SAID = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Npm(ReleaseSource):
    """`npm:NAME@VERSION`, or `npm:@SCOPE/NAME@VERSION`: cluster and repository are the package.

    The tarball is fetched as a file from the registry that npm is set up with (``npm_config_registry``, else
    ``~/.npmrc``, a scope's own included), so no script runs. Its leading folder, ``package/``, is left off
    the paths. Left out and counted are packages inside it, and what was not written: what
    `sonde.corpora.engine.source_files` says, folders of builds and files called minified.
    """

    scheme = "npm"
    release = re.compile(
        r"((?:@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*)@([0-9][0-9A-Za-z.+-]*)"
    )
    form = "NAME@VERSION"
    example = "express@4.19.2"
    setting = "npm's registry"

    def download(self, name: str, version: str, folder: Path, tell: Callable[[str], None]) -> None:
        """Fetch the tarball as the registry lists it.

        Raises:
            InputError: See `ReleaseSource.download`; or the registry promises no SHA-512 of it.
        """
        corpus = f"corpus 'npm:{name}@{version}'"
        record = self._fetch_record(name)
        try:
            distribution = record["versions"][version]["dist"]
            address = urljoin(_registry_address(name), distribution["tarball"])
        except _NOT_SAID:
            raise InputError(f"{corpus}: no such release; `npm view {name} versions` lists them") from None
        try:
            (digest,) = (
                entry[7:] for entry in distribution["integrity"].split() if entry.startswith("sha512-")
            )
            checksum = base64.b64decode(digest, validate=True)
        except _NOT_SAID:
            checksum = b""
        if len(checksum) != hashlib.sha512().digest_size:
            raise InputError(f"{corpus}: the registry promises no sha512 to check it by")
        archive = f"{name.rpartition('/')[2]}-{version}.tgz"
        download_archive(Archive(archive, address, self.setting, checksum.hex(), "sha512"), folder, tell)

    def upload_day(self, name: str, version: str) -> str:
        """Return the day of a release by the registry's ``time``; empty if it gives none."""
        try:
            return parse_utc_day(self._fetch_record(name)["time"][version])
        except _NOT_SAID:
            return ""

    def licence(self, archive: Path) -> str:
        """Return the licence that ``package.json`` names, in current or older forms."""
        try:
            package = json.loads(read_metadata_file(archive, ("package.json",)))
            licence_field = package.get("license") or package.get("licenses")
        except _NOT_SAID:
            return ""
        entries = cast("list[Any]", licence_field) if isinstance(licence_field, list) else [licence_field]
        names = [
            cast("dict[str, Any]", entry).get("type") if isinstance(entry, dict) else entry
            for entry in entries
        ]
        return " OR ".join(name for name in names if isinstance(name, str))

    def members(self, archive: Path, table: dict[str, str], intake: SkipCounter) -> Iterator[Member]:
        """Yield the source files that were written for this package."""
        for path, text, language in super().members(archive, table, intake):
            path = path.partition("/")[2] or path
            parts = PurePosixPath(path).parts
            if not BUILD_FOLDERS.isdisjoint(parts[:-1]):
                intake.note(GENERATED_PATH, path)
            elif is_handwritten(path, text, intake):
                yield path, text, language

    def _fetch_record(self, name: str) -> Any:
        """Fetch the registry's record of a package.

        Raises:
            InputError: It cannot be reached, or answers something else.
        """
        page = _registry_address(name)
        try:
            return json.loads(http_get(page, self.setting))
        except (ValueError, RecursionError):
            raise InputError(f"{page} does not answer with JSON; check {self.setting}") from None


def _registry_address(name: str) -> str:
    """Return the address of a package's record; a scope may have its own registry."""
    settings = _settings()
    scope_registry = settings.get(f"{name.partition('/')[0]}:registry") if "/" in name else None
    registry = scope_registry or _variable("npm_config_registry") or settings.get("registry") or _PUBLIC
    return f"{registry.rstrip('/')}/{quote(name, safe='@')}"


def _settings() -> dict[str, str]:
    """Read the registries that the user's ``.npmrc`` names; logins in it are ignored."""
    path = expand_home(_variable("npm_config_userconfig") or "~/.npmrc")
    text = read_document(path, "npm").decode("utf-8", "replace") if path.is_file() else ""
    lines = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith((";", "#")))
    return {
        key.strip(): os.path.expandvars(value.strip().strip("\"'"))
        for key, _, value in lines
        if key.strip().endswith("registry")
    }


def _variable(name: str) -> str:
    """Read an environment variable in any case, as npm does."""
    return next((value for key, value in os.environ.items() if value and key.lower() == name), "")


source = Npm()
