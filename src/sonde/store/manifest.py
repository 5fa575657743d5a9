"""Manifest of a remote folder: the list of sonde's objects, so that no other is ever changed.

The manifest is written before the objects that it lists are sent. So objects of a killed process are known as
sonde's, and all others as somebody else's.
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
"""Temporary name of the manifest on stores that do not write objects atomically."""

_LARGEST = 256 << 20
_HASH = re.compile("[0-9a-f]{32}")


def read_manifest(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str] | None:
    """Read the list of sonde's objects in a remote folder.

    Without a manifest, as in a run that another program has copied, the receipts are used.

    Args:
        system: The fsspec file system.
        root: Path of the folder.
        sizes: Sizes in bytes of all objects in the folder, by relative path.

    Returns:
        Hashes of contents by relative path, empty for receipts and files that have one; None if nothing in
        the folder was written by sonde.

    Raises:
        StoreError: The manifest is damaged.
    """
    if NAME not in sizes:
        return _of_receipts(system, root, sizes)
    if sizes[NAME] > _LARGEST or (found := _parsed(system.cat_file(f"{root}/{NAME}"))) is None:
        raise StoreError(f"{NAME}: its content is not what was written")
    return found


def rebuilt(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str]:
    """Rebuild a damaged manifest from the receipts."""
    return _of_receipts(system, root, sizes) or {}


def manifest_bytes(files: dict[str, str]) -> bytes:
    """Format the content of a manifest as JSON."""
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
    """Read the content of small objects by relative path; missing ones are omitted."""
    by_path = {f"{root}/{name}": name for name in names}
    if not by_path:
        return {}
    found = system.cat(list(by_path), on_error="omit")
    return {relative_to(root, path): content for path, content in found.items()}


def relative_to(root: str, path: str) -> str:
    """Return the path of an object relative to the folder."""
    return path.removeprefix("/").removeprefix(root.removeprefix("/")).removeprefix("/")


def _is_inside(name: str) -> bool:
    """Return whether a name stays inside its folder and is no reserved name."""
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and not name.startswith(("/", ".")) and parts != (FOLDER,)
