"""Addresses of remote folders (``s3://bucket/run``), their file systems and the state of local copies.

An address is told from a local path by its scheme. For local copies of addresses the module holds their
folder, what is known of their files (`SyncRecord`), and how their files are named to a person.
"""

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
from sonde.base.files import get_cache_folder, get_file_stamps, write_atomic

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)


_LOCAL_SCHEMES = ("file", "local")


_ANSWER_SECONDS = 20.0


def parse_address(location: str | os.PathLike[str]) -> str:
    """Parse the address in `location`; empty if it is a local path.

    One slash after the scheme is enough, since `Path` merges the two.

    >>> from pathlib import Path
    >>> parse_address("s3://bucket/run"), parse_address(Path("s3://bucket/run")), parse_address("runs/s3")
    ('s3://bucket/run', 's3://bucket/run', '')
    >>> parse_address(Path("file:///tmp/run"))
    'file:///tmp/run'
    """
    match = _ADDRESS.fullmatch(os.fspath(location))
    if match is None:
        return ""
    scheme, path = match.groups()
    return f"{scheme}://{'/' if scheme in _LOCAL_SCHEMES else ''}{path.rstrip('/')}"


def open_address(address: str, object_name: str) -> tuple[Any, str]:
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
        raise UsageError(f"{address}: {to_line(error)} (`pip install 'sonde[s3]'` for s3://)") from error
    except ValueError as error:
        raise UsageError(f"{address}: nothing is known of addresses that begin with {scheme}://") from error
    folder = str(root).rstrip("/")
    with raise_store_errors(address):
        _call_within(_ANSWER_SECONDS, lambda: system.exists(f"{folder}/{object_name}"), address)
    return system, folder


def _call_within(seconds: float, function: Callable[[], object], address: str) -> None:
    """Call a function in a thread; raise `StoreError` if `address` does not answer in time."""
    errors: list[BaseException] = []

    def asking() -> None:
        try:
            function()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise StoreError(f"{address} does not answer within {seconds:g} seconds")
    if errors:
        raise errors[0]


@contextmanager
def raise_store_errors(address: str) -> Generator[None]:
    """Re-raise any exception of a file system as a `StoreError` in one line."""
    try:
        yield
    except SondeError:
        raise
    except Exception as error:
        raise StoreError(f"{address}: {to_line(error)}") from error


def to_line(error: BaseException) -> str:
    """Return the first line of the message of an exception."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


_STATE_NAME = ".address.json"


_COPIES_FOLDER = "runs"


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """State of a remote object and its local file when both had the same content.

    Attributes:
        there: Hash of the store's metadata of the object; empty until it is queried.
        content: Hash of the content.
        here: Stamp of the local file, see `get_stamp`.
    """

    there: str
    content: str
    here: str


def get_copies_folder() -> Path:
    """Return the folder of the local copies of addresses."""
    return get_cache_folder(_COPIES_FOLDER)


def read_sync_records(copy: Path, address: str) -> dict[str, SyncRecord]:
    """Read the sync records of a copy by path; empty if they are of another address or format."""
    state = _read_state(copy)
    records = state.get("same") if state.get("address") == address else None
    try:
        return {str(name): SyncRecord(*map(str, record)) for name, record in dict(records or {}).items()}
    except (TypeError, ValueError):
        return {}


def write_sync_records(copy: Path, address: str, records: Mapping[str, SyncRecord]) -> None:
    """Write the sync records of a copy.

    Raises:
        StoreError: The disk is full or not writable.
    """
    table = {name: astuple(record) for name, record in records.items() if record.there}
    write_atomic(copy / _STATE_NAME, json.dumps({"address": address, "same": table}))


def get_stamp(path: Path) -> str:
    """Return the stamp of a file (inode, size, times) as text; empty if it does not exist."""
    try:
        ((_, *stamp),) = get_file_stamps([path])
    except OSError:
        return ""
    return " ".join(map(str, stamp))


def format_path(path: Path) -> str:
    """Format a path for a person: as an address if it is in the local copy of one."""
    folder = get_copies_folder()
    if path.is_relative_to(folder) and path != folder:
        relative = path.relative_to(folder)
        address = _read_state(folder / relative.parts[0]).get("address")
        if isinstance(address, str):
            return "/".join((address, *relative.parts[1:]))
    return str(path)


def _read_state(copy: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((copy / _STATE_NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}
