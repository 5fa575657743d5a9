"""Addresses of remote folders (``s3://bucket/run``), their file systems and the state of local copies."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import SondeError, StoreError, UsageError
from sonde.base.files import cache_folder, file_stamps, write_atomic

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)


_LOCAL = ("file", "local")


_ANSWER_SECONDS = 20.0


def address_of(place: str | os.PathLike[str]) -> str:
    """Parse the address in `location`; empty if it is a local path.

    One slash after the scheme is enough, since `Path` merges the two.

    >>> from pathlib import Path
    >>> parse_address("s3://bucket/run"), parse_address(Path("s3://bucket/run")), parse_address("runs/s3")
    ('s3://bucket/run', 's3://bucket/run', '')
    >>> parse_address(Path("file:///tmp/run"))
    'file:///tmp/run'
    """
    found = _ADDRESS.fullmatch(os.fspath(place))
    if found is None:
        return ""
    scheme, rest = found.groups()
    return f"{scheme}://{'/' if scheme in _LOCAL else ''}{rest.rstrip('/')}"


def open_address(address: str, first: str) -> tuple[Any, str]:
    """Open the fsspec file system of an address; return it with the path of the folder.

    Args:
        address: The address.
        object_name: Name of an object to look up, as a test of the connection; it need not exist.

    Raises:
        UsageError: No file system has such addresses, or its package is not installed.
        StoreError: The address does not answer.
    """
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    scheme = address.partition(":")[0]
    try:
        system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise UsageError(f"{address}: {line_of(error)} (`pip install 'sonde[s3]'` for s3://)") from error
    except ValueError as error:
        raise UsageError(f"{address}: nothing is known of addresses that begin with {scheme}://") from error
    folder = str(root).rstrip("/")
    with as_one_line(address):
        _within(_ANSWER_SECONDS, lambda: system.exists(f"{folder}/{first}"), address)
    return system, folder


def _within(seconds: float, ask: Callable[[], object], address: str) -> None:
    """Call a function in a thread; raise `StoreError` if `address` does not answer in time."""
    raised: list[BaseException] = []

    def asking() -> None:
        try:
            ask()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise StoreError(f"{address} does not answer within {seconds:g} seconds")
    if raised:
        raise raised[0]


@contextmanager
def as_one_line(address: str) -> Generator[None]:
    """Re-raise any exception of a file system as a `StoreError` in one line."""
    try:
        yield
    except SondeError:
        raise
    except Exception as error:
        raise StoreError(f"{address}: {line_of(error)}") from error


def line_of(error: BaseException) -> str:
    """Return the first line of the message of an exception."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


_STATE = ".address.json"


_FOLDER = "runs"


@dataclass(frozen=True, slots=True)
class Same:
    """State of a remote object and its local file when both had the same content.

    Attributes:
        there: Hash of the store's metadata of the object; empty until it is queried.
        content: Hash of the content.
        here: Stamp of the local file, see `get_stamp`.
    """

    there: str
    content: str
    here: str


def copies_folder() -> Path:
    """Return the folder of the local copies of addresses."""
    return cache_folder(_FOLDER)


def read_same(copy: Path, address: str) -> dict[str, Same]:
    """Read the sync records of a copy by path; empty if they are of another address or format."""
    state = _state_of(copy)
    held = state.get("same") if state.get("address") == address else None
    try:
        return {str(name): Same(*map(str, one)) for name, one in dict(held or {}).items()}
    except (TypeError, ValueError):
        return {}


def write_same(copy: Path, address: str, same: Mapping[str, Same]) -> None:
    """Write the sync records of a copy.

    Raises:
        StoreError: The disk is full or not writable.
    """
    held = {name: astuple(one) for name, one in same.items() if one.there}
    write_atomic(copy / _STATE, json.dumps({"address": address, "same": held}))


def stamp_of(path: Path) -> str:
    """Return the stamp of a file (inode, size, times) as text; empty if it does not exist."""
    try:
        ((_, *stamp),) = file_stamps([path])
    except OSError:
        return ""
    return " ".join(map(str, stamp))


def shown(path: Path) -> str:
    """Format a path for a person: as an address if it is in the local copy of one."""
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
