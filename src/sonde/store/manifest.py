"""The manifest of an address: which of the objects there are sonde's, so that no other is ever touched.

It is written before what it lists is sent. An object that a killed process has left behind is therefore known
as its own, and one that somebody else has put there is known as theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from sonde.base.errors import StoreError
from sonde.base.fingerprint import hash_text
from sonde.store.checksums import FOLDER, file_of, receipt_from

NAME = ".sonde-manifest.json"
UNFINISHED = f"{NAME}.tmp"
"""What the manifest is written into where a store does not write an object whole or not at all."""

_LARGEST = 256 << 20
_HASH = re.compile("[0-9a-f]{32}")


def read_manifest(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str] | None:
    """Sonde's objects at an address.

    Args:
        system: The fsspec file system.
        root: The folder's path there.
        sizes: The objects that lie there, by relative path, with their bytes.

    Returns:
        By relative path the hash of the content; empty for receipts and for files that have one. None where
        nothing there was written by sonde. Without a manifest, as where another program has copied a run, the
        receipts say.

    Raises:
        StoreError: The manifest is not what was written.
    """
    if NAME not in sizes:
        return _of_receipts(system, root, sizes)
    if sizes[NAME] > _LARGEST or (found := _parsed(system.cat_file(f"{root}/{NAME}"))) is None:
        raise StoreError(f"{NAME}: its content is not what was written")
    return found


def rebuilt(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str]:
    """What a manifest that is damaged listed, as far as receipts say it."""
    return _of_receipts(system, root, sizes) or {}


def manifest_bytes(files: dict[str, str]) -> bytes:
    """The content of a manifest."""
    listed = json.dumps(files, sort_keys=True)
    return json.dumps({"content": hash_text(listed), "files": files}, sort_keys=True).encode()


def _parsed(content: bytes) -> dict[str, str] | None:
    try:
        held = json.loads(content)
        files = {str(name): str(one) for name, one in held["files"].items()}
        if held["content"] != hash_text(json.dumps(files, sort_keys=True)):
            return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {name: one for name, one in files.items() if _is_inside(name)}


def _of_receipts(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for name, content in read_objects(system, root, (one for one in sizes if file_of(one))).items():
        receipt = receipt_from(content)
        if receipt is not None and _HASH.fullmatch(receipt.content):
            found |= {name: "", file_of(name): ""}
    return {name: one for name, one in found.items() if _is_inside(name)} or None


def read_objects(system: Any, root: str, names: Iterable[str]) -> dict[str, bytes]:
    """The content of small objects, by relative path; those that are gone are left out."""
    by_path = {f"{root}/{name}": name for name in names}
    if not by_path:
        return {}
    found = system.cat(list(by_path), on_error="omit")
    return {relative_to(root, path): content for path, content in found.items()}


def relative_to(root: str, path: str) -> str:
    """The path of an object inside a folder."""
    return path.removeprefix("/").removeprefix(root.removeprefix("/")).removeprefix("/")


def _is_inside(name: str) -> bool:
    """Whether a name leads to no place outside its folder, and is none of the names that protect it."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith(("/", ".")) and parts != (FOLDER,)
