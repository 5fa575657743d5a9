"""Exclusive access to folders: a lock for local folders and a lease for remote ones.

The system frees the lock of a local folder when its holder dies; the lock names the holder.

A lease is an object at the address, which is free if nobody renews it. It is created under the condition that
there is none, which object stores grant to only one of several that try at once. Whether its holder is alive
is found by watching the lease, never by comparing the clocks of two machines.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import check_folder_name

LOCK_NAME = ".lock"


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Lock a folder while this context writes into it.

    The system frees the lock of a process that has died.

    Raises:
        UsageError: Another process holds the lock (the message names it), or the name is not Unicode.
        StoreError: The folder is not writable.
    """
    import fcntl

    check_folder_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_NAME).open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise _build_write_error(folder, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UsageError(
                f"folder {str(folder)!r} is in use by {_format_holder(_parse(file.read(1000)))}; wait for "
                "it, or name another folder with -o"
            ) from None
        try:
            file.truncate(0)
            # Unbuffered: a buffer would be written, and fail, once more.
            os.write(file.fileno(), json.dumps(_describe_holder()).encode())
        except OSError as error:
            raise _build_write_error(folder, error) from error
        try:
            yield
        finally:
            file.truncate(0)


def _build_write_error(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"folder {str(folder)!r}: cannot be written to ({error.strerror or error})")


def _describe_holder() -> dict[str, Any]:
    """Describe this process as the holder of a lock or lease."""
    timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": timestamp}


def _parse(content: str | bytes) -> dict[str, Any]:
    """Parse the content of a lock or lease; what cannot be read has its own content as its token."""
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        # An unreadable lease is alive as long as its content changes.
        return {"token": repr(content[:1000])}


def _format_holder(fields: dict[str, Any]) -> str:
    try:
        return (
            f"process {int(fields['pid'])} on {str(fields['host'])[:80]!r} since {str(fields['since'])[:40]}"
        )
    except (ValueError, KeyError, TypeError):
        return "another process"


LEASE_NAME = ".lease"


EXPIRY_SECONDS = 30.0
"""Seconds without a renewal after which a lease has expired."""


_SETTLING_SECONDS = 1.0
"""Wait after taking over an expired lease, to see whether another process did so at the same moment."""


@dataclass(slots=True)
class Lease:
    """A lease on a folder of a remote file system.

    Attributes:
        system: The fsspec file system.
        path: Path of the lease object.
        where: Address of the folder, for messages.
        expiry: Seconds without a renewal after which a lease has expired.
    """

    system: Any
    path: str
    where: str
    expiry: float = EXPIRY_SECONDS
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _holder: dict[str, Any] = field(default_factory=_describe_holder)
    _renewals: int = 0
    _renewal_time: float = 0.0

    def take(self, note: Callable[[str], None]) -> None:
        """Take the lease; an existing one is watched until it is renewed or has expired.

        Args:
            note: Called with a message if that takes a while.

        Raises:
            UsageError: Another process holds the lease; the message names it.
        """
        lease = self._read()
        if lease is not None:
            note(f"{self.where} was being written by {_format_holder(lease)}; checking whether it still is")
            start = time.monotonic()
            while time.monotonic() - start < self.expiry:
                time.sleep(min(0.5, self.expiry / 10))
                current_lease = self._read()
                if current_lease is None:
                    break
                if current_lease != lease:
                    raise self._taken(current_lease)
            else:
                self._remove()
        try:
            self.system.pipe_file(self.path, self._to_bytes(), mode="create")
        except FileExistsError:
            raise self._taken(self._read()) from None
        if lease is not None:
            time.sleep(min(_SETTLING_SECONDS, self.expiry / 10))
        self._renewal_time = time.monotonic()
        self._check_ownership()

    def renew(self) -> None:
        """Renew the lease.

        Raises:
            StoreError: Another process took it over; nothing may be written any more.
        """
        self._check_ownership()
        self._renewals += 1
        self.system.pipe_file(self.path, self._to_bytes())
        self._renewal_time = time.monotonic()

    def check(self) -> None:
        """Check before a write that the lease is still held; renews it unless that was done recently.

        Raises:
            StoreError: Another process took it over.
        """
        if time.monotonic() - self._renewal_time > self.expiry / 3:
            self.renew()

    def release(self) -> None:
        """Release the lease, unless another process took it over."""
        lease = self._read()
        if lease is not None and lease.get("token") == self._token:
            self._remove()

    def _to_bytes(self) -> bytes:
        return json.dumps({"token": self._token, "renewals": self._renewals, **self._holder}).encode()

    def _read(self) -> dict[str, Any] | None:
        self.system.invalidate_cache()
        return read_lease(self.system, self.path)

    def _remove(self) -> None:
        # Another waiting process may have been faster.
        with suppress(FileNotFoundError):
            self.system.rm_file(self.path)

    def _check_ownership(self) -> None:
        lease = self._read()
        if lease is None or lease.get("token") != self._token:
            holder = f" by {_format_holder(lease)}" if lease else ""
            raise StoreError(
                f"{self.where} has been taken over{holder}; what this process has computed since "
                "is in its local copy, and the same command sends it once the other has ended"
            )

    def _taken(self, lease: dict[str, Any] | None) -> UsageError:
        return UsageError(
            f"{self.where} is in use by {_format_holder(lease or {})}; wait for it, or name another address "
            "with -o"
        )


def read_lease(system: Any, path: str) -> dict[str, Any] | None:
    """Read the fields of a lease; None if there is none."""
    try:
        return _parse(system.cat_file(path))
    except FileNotFoundError:
        return None


def is_lease(system: Any, path: str) -> bool:
    """Return whether an object is a lease, and not a user's file of that name."""
    with suppress(OSError):
        return {"token", "renewals", "pid", "host", "since"} == (read_lease(system, path) or {}).keys()
    return False


def read_holder(system: Any, path: str) -> str:
    """Read the holder of a lease and format it for a message."""
    with suppress(OSError):
        return _format_holder(read_lease(system, path) or {})
    return "another process"
