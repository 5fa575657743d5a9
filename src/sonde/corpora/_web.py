"""What is fetched from an index of packages: its answers, and archives that are what it promises."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.corpora._bounded import MAX_WHOLE, Meter, read_document

_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Archive:
    """Where the archive of a release can be had.

    Attributes:
        name: Its file name.
        address: A path on this machine or an address on the web.
        setting: Which setting of which program names the index, for the message.
        digest: The hexadecimal digest that the index promises; empty where it promises none.
        algorithm: What the digest was made by, as `hashlib` calls it.
    """

    name: str
    address: str
    setting: str
    digest: str = ""
    algorithm: str = "sha256"


def fetch(archive: Archive, folder: Path) -> None:
    """Bring an archive into a folder, as the file it is.

    Raises:
        InputError: It cannot be reached, or is not the file that the index promises.
        StoreError: The folder cannot be written.
    """
    local = Path(archive.address)
    raw = read_document(local, archive.name) if local.is_file() else get(archive.address, archive.setting)
    if archive.digest and hashlib.new(archive.algorithm, raw).hexdigest() != archive.digest:
        raise InputError(
            f"{archive.address}: the file is not the one that the index lists ({archive.algorithm} differs)"
        )
    write_atomic(folder / Path(archive.name).name, raw)


def get(address: str, setting: str, *, accept: str = "*/*") -> bytes:
    """What an address on the web answers.

    Args:
        address: The address.
        setting: Which setting of which program names it, for the message.
        accept: The media type that is asked for.

    Raises:
        InputError: It cannot be reached, or its answer is longer than any that is read.
    """
    if urlsplit(address).scheme not in ("https", "http"):
        raise InputError(f"{address}: only http and https addresses are fetched")
    try:
        request = urllib.request.Request(address, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            return Meter(address).whole(answer, MAX_WHOLE, "the answer")
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise InputError(f"{address} cannot be reached: {reason}; check the network or {setting}") from error
