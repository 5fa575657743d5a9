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
from sonde.store.checksums import RECEIPT_FOLDER, parse_receipt, receipt_to_file

MANIFEST_NAME = ".sonde-manifest.json"
TEMPORARY_NAME = f"{MANIFEST_NAME}.tmp"
"""Temporary name of the manifest on stores that do not write objects atomically."""

_MAXIMUM_BYTES = 256 << 20
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
    if MANIFEST_NAME not in sizes:
        return _read_receipts(system, root, sizes)
    if (
        sizes[MANIFEST_NAME] > _MAXIMUM_BYTES
        or (files := _parse_manifest(system.cat_file(f"{root}/{MANIFEST_NAME}"))) is None
    ):
        raise StoreError(f"{MANIFEST_NAME}: its content is not what was written")
    return files


def rebuild_manifest(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str]:
    """Rebuild a damaged manifest from the receipts."""
    return _read_receipts(system, root, sizes) or {}


def format_manifest(files: dict[str, str]) -> bytes:
    """Format the content of a manifest as JSON."""
    files_text = json.dumps(files, sort_keys=True)
    return json.dumps({"content": hash_text(files_text), "files": files}, sort_keys=True).encode()


def _parse_manifest(content: bytes) -> dict[str, str] | None:
    try:
        document = json.loads(content)
        files = {str(name): str(digest) for name, digest in document["files"].items()}
        if document["content"] != hash_text(json.dumps(files, sort_keys=True)):
            return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {name: digest for name, digest in files.items() if _is_safe_name(name)}


def _read_receipts(system: Any, root: str, sizes: dict[str, int]) -> dict[str, str] | None:
    files: dict[str, str] = {}
    for name, content in read_objects(
        system, root, (path for path in sizes if receipt_to_file(path))
    ).items():
        receipt = parse_receipt(content)
        if receipt is not None and _HASH.fullmatch(receipt.content):
            files |= {name: "", receipt_to_file(name): ""}
    return {name: digest for name, digest in files.items() if _is_safe_name(name)} or None


def read_objects(system: Any, root: str, names: Iterable[str]) -> dict[str, bytes]:
    """Read the content of small objects by relative path; missing ones are omitted."""
    by_path = {f"{root}/{name}": name for name in names}
    if not by_path:
        return {}
    contents = system.cat(list(by_path), on_error="omit")
    return {get_relative_path(root, path): content for path, content in contents.items()}


def get_relative_path(root: str, path: str) -> str:
    """Return the path of an object relative to the folder."""
    return path.removeprefix("/").removeprefix(root.removeprefix("/")).removeprefix("/")


def _is_safe_name(name: str) -> bool:
    """Return whether a name stays inside its folder and is no reserved name."""
    parts = PurePosixPath(name).parts
    return (
        bool(parts) and ".." not in parts and not name.startswith(("/", ".")) and parts != (RECEIPT_FOLDER,)
    )
