"""Addresses of folders (``s3://bucket/run``): telling them from paths, and opening their file systems."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from sonde.base.errors import SondeError, StoreError, UsageError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_ANSWER_SECONDS = 20.0


def address_of(place: str | os.PathLike[str]) -> str:
    """The address that a place is; empty where it is a path of this machine.

    A path joins the slashes of an address, so one of them is enough.

    >>> from pathlib import Path
    >>> address_of("s3://bucket/run"), address_of(Path("s3://bucket/run")), address_of("runs/s3")
    ('s3://bucket/run', 's3://bucket/run', '')
    >>> address_of(Path("file:///tmp/run"))
    'file:///tmp/run'
    """
    found = _ADDRESS.fullmatch(os.fspath(place))
    if found is None:
        return ""
    scheme, rest = found.groups()
    return f"{scheme}://{'/' if scheme in _LOCAL else ''}{rest.rstrip('/')}"


def open_address(address: str, first: str) -> tuple[Any, str]:
    """The fsspec file system of an address that answers, and the folder's path there.

    Args:
        address: The address.
        first: Name of an object that is asked for, to see whether the address answers.

    Raises:
        UsageError: No file system has such addresses, or its package is not installed.
        StoreError: It does not answer.
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
    """Ask an address something, and take no answer within some seconds for an answer."""
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
    """Whatever a file system raises, as one line."""
    try:
        yield
    except SondeError:
        raise
    except Exception as error:
        raise StoreError(f"{address}: {line_of(error)}") from error


def line_of(error: BaseException) -> str:
    """The first line of what an exception says."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
