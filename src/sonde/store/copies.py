"""Local copies of addresses: where they lie, what is known of them, and how their files are named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from sonde.base.files import cache_folder, file_stamps, write_atomic

_STATE = ".address.json"
_FOLDER = "runs"


@dataclass(frozen=True, slots=True)
class Same:
    """An object and its file when both were the same.

    Attributes:
        there: What the store said of the object; empty until it is asked.
        content: Hash of the content.
        here: What the file system said of the file.
    """

    there: str
    content: str
    here: str


def copies_folder() -> Path:
    """Where the copies of addresses lie."""
    return cache_folder(_FOLDER)


def read_same(copy: Path, address: str) -> dict[str, Same]:
    """The objects that a copy was the same as; none of another address, or of what another version wrote."""
    state = _state_of(copy)
    held = state.get("same") if state.get("address") == address else None
    try:
        return {str(name): Same(*map(str, one)) for name, one in dict(held or {}).items()}
    except (TypeError, ValueError):
        return {}


def write_same(copy: Path, address: str, same: Mapping[str, Same]) -> None:
    """Keep which objects a copy is the same as.

    Raises:
        StoreError: The disk is full or not writable.
    """
    held = {name: astuple(one) for name, one in same.items() if one.there}
    write_atomic(copy / _STATE, json.dumps({"address": address, "same": held}))


def stamp_of(path: Path) -> str:
    """What the file system says of a file; empty where it is not there."""
    try:
        ((_, *stamp),) = file_stamps([path])
    except OSError:
        return ""
    return " ".join(map(str, stamp))


def shown(path: Path) -> str:
    """A path as a person knows it: by its address where it lies in the copy of one."""
    folder = copies_folder()
    if path.is_relative_to(folder) and path != folder:
        inside = path.relative_to(folder)
        address = _state_of(folder / inside.parts[0]).get("address")
        if isinstance(address, str):
            return "/".join((address, *inside.parts[1:]))
    return str(path)


def _state_of(copy: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((copy / _STATE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
