"""One process a folder: a lock that the system frees when its holder dies, and that names the holder."""

from __future__ import annotations

import datetime
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import StoreError, UsageError
from sonde.base.files import check_name

NAME = ".lock"


@contextmanager
def held(folder: Path) -> Generator[None]:
    """Hold a folder while something is written into it.

    The lock of a process that has died is free: the next one takes it over.

    Raises:
        UsageError: Another process holds it; says which, where and since when. Or its name is not Unicode.
        StoreError: The folder cannot be written to.
    """
    import fcntl

    check_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / NAME).open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise _not_writable(folder, error) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise UsageError(
                f"folder {str(folder)!r} is in use by {_holder(handle.read(1000))}; wait for it, or name "
                "another folder with -o"
            ) from None
        since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        holder = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
        try:
            handle.truncate(0)
            # Nothing is left in a buffer that would be written, and fail, once more.
            os.write(handle.fileno(), holder.encode())
        except OSError as error:
            raise _not_writable(folder, error) from error
        try:
            yield
        finally:
            handle.truncate(0)


def _not_writable(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"folder {str(folder)!r}: cannot be written to ({error.strerror or error})")


def _holder(content: str) -> str:
    try:
        found = json.loads(content)
        return f"process {int(found['pid'])} on {str(found['host'])[:80]!r} since {str(found['since'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "another process"


LEASE = ".lease"


EXPIRY_SECONDS = 30.0
"""A lease that stays unchanged for so long is nobody's."""


RENEWAL_SECONDS = 5.0
"""How often its holder renews it: a few renewals may fail before it is lost."""


_SETTLING_SECONDS = 1.0
"""How long one that took over an expired lease waits, to see whether another did so at the same moment."""


@dataclass(slots=True)
class Lease:
    """A lease on a folder of a file system.

    Attributes:
        system: An fsspec file system.
        path: Path of the object.
        where: The address, for a person.
        expiry: Seconds after which one that is not renewed is nobody's.
    """

    system: Any
    path: str
    where: str
    expiry: float = EXPIRY_SECONDS
    _token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _since: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    _renewals: int = 0
    _renewed: float = 0.0

    def take(self, note: Callable[[str], None]) -> None:
        """Become its holder; one that is there already is watched until it is renewed or has expired.

        Args:
            note: Is told where that takes a while.

        Raises:
            UsageError: Another process holds it; says which, where and since when.
        """
        found = self._read()
        if found is not None:
            note(f"{self.where} was being written by {_lease_holder(found)}; seeing whether it still is")
            begin = time.monotonic()
            while time.monotonic() - begin < self.expiry:
                time.sleep(min(0.5, self.expiry / 10))
                now = self._read()
                if now is None:
                    break
                if now != found:
                    raise self._taken(now)
            else:
                self._remove()
        try:
            self.system.pipe_file(self.path, self._content(), mode="create")
        except FileExistsError:
            raise self._taken(self._read()) from None
        if found is not None:
            time.sleep(min(_SETTLING_SECONDS, self.expiry / 10))
        self._renewed = time.monotonic()
        self._must_be_ours()

    def renew(self) -> None:
        """Say that its holder lives.

        Raises:
            StoreError: It is no longer ours; nothing may be written any more.
        """
        self._must_be_ours()
        self._renewals += 1
        self.system.pipe_file(self.path, self._content())
        self._renewed = time.monotonic()

    def check(self) -> None:
        """Make sure that it is still ours before something is written; costs nothing soon after a renewal.

        Raises:
            StoreError: It is not.
        """
        if time.monotonic() - self._renewed > self.expiry / 3:
            self.renew()

    def give_back(self) -> None:
        """Leave the folder to the next one, unless that has taken it already."""
        found = self._read()
        if found is not None and found.get("token") == self._token:
            self._remove()

    def _content(self) -> bytes:
        return json.dumps(
            {
                "token": self._token,
                "renewals": self._renewals,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": self._since,
            }
        ).encode()

    def _read(self) -> dict[str, Any] | None:
        self.system.invalidate_cache()
        try:
            content = self.system.cat_file(self.path)
        except FileNotFoundError:
            return None
        try:
            return dict(json.loads(content))
        except (ValueError, TypeError):
            # Whoever wrote it is as alive as the content changes.
            return {"token": repr(content[:1000])}

    def _remove(self) -> None:
        try:
            self.system.rm_file(self.path)
        except FileNotFoundError:
            # Another one that waited for it was faster.
            return

    def _must_be_ours(self) -> None:
        found = self._read()
        if found is None or found.get("token") != self._token:
            by = f" by {_lease_holder(found)}" if found else ""
            raise StoreError(
                f"{self.where} has been taken over{by}; what this process has computed since lies in its "
                "local copy, and the same command sends it once the other has ended"
            )

    def _taken(self, found: dict[str, Any] | None) -> UsageError:
        return UsageError(
            f"{self.where} is in use by {_lease_holder(found or {})}; wait for it, or name another address "
            "with -o"
        )


def is_lease(system: Any, path: str) -> bool:
    """Whether an object is a lease, and not somebody's file of that name."""
    try:
        return {"token", "renewals", "pid", "host", "since"} == dict(json.loads(system.cat_file(path))).keys()
    except (OSError, ValueError, TypeError):
        return False


def holder_at(system: Any, path: str) -> str:
    """Who holds a lease, for a person."""
    try:
        return _lease_holder(dict(json.loads(system.cat_file(path))))
    except (OSError, ValueError, TypeError):
        return "another process"


def _lease_holder(found: dict[str, Any]) -> str:
    try:
        return f"process {int(found['pid'])} on {str(found['host'])[:80]!r} since {str(found['since'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "another process"
