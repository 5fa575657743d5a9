"""Folders of runs at an address (``s3://bucket/run``): a local copy is worked on and kept in step with it.

What is finished is sent with its receipt, the file first. Who writes works in one copy, who reads in another:
the second is what lies at the address, damage included, and the first what it will be.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sonde.base.errors import StoreError
from sonde.base.fingerprint import hash_text
from sonde.store import lease, manifest
from sonde.store.address import address_of, as_one_line, line_of, open_address
from sonde.store.copies import copies_folder
from sonde.store.remote_folder import Remote
from sonde.store.rundir import slug

_SECONDS_BETWEEN = 5.0
_TRIES = 3
_STOP = signal.SIGUSR1
"""The signal by which a lost lease ends the work; nothing sends it from outside."""


@contextmanager
def in_step(
    place: Path,
    note: Callable[[str], None],
    *,
    outputs: Sequence[str] | None = None,
    begins: bool | None = None,
) -> Generator[Path]:
    """Work in a folder wherever it is: a path of this machine as it is, an address through its local copy.

    What lies at the address is fetched first; what is finished here is sent while the work goes on and once
    more when it ends, well or not. Nobody else can write there meanwhile. Objects that sonde has not written
    stay as they are, and what the work removes is removed there when it ends well.

    Args:
        place: A path, or an address.
        note: Is told what a person should know.
        outputs: For work that reads a run: patterns of the files that it writes into it. They alone are sent,
            and only if it ends well.
        begins: Whether nothing may lie there yet; by default where `outputs` is None.

    Yields:
        The folder to work in.

    Raises:
        UsageError: The address cannot be used, holds something and no run, or another process writes there.
        InputError: There is no run to read.
        StoreError: It does not answer, or was taken over; what was finished is kept in the local copy.
    """
    address = address_of(place)
    if not address:
        yield place
        return
    remote, begins = _opened(address, writes=outputs is None), outputs is None if begins is None else begins
    with as_one_line(address):
        remote.must_be_ours(begins=begins)
        held = lease.Lease(remote.system, remote.place_for(lease.NAME), address, lease.EXPIRY_SECONDS)
        held.take(note)
    sender = _Sender(remote, held, outputs)
    try:
        with _stoppable():
            with as_one_line(address):
                remote.fetch(writes=outputs is None, holds=True, begins=begins)
            is_well = False
            try:
                sender.start()
                yield remote.local
                is_well = True
            finally:
                sender.end(is_well=is_well)
    except _LeaseLost:
        # Said below, once the lease is given back.
        pass
    finally:
        with contextlib.suppress(Exception):
            held.give_back()
    if sender.lost:
        raise sender.lost
    note(f"everything of {remote.local} lies at {address}")


def fetched(place: str | os.PathLike[str], *, anew: bool = False) -> Path:
    """A folder to read from: a path of this machine as it is, an address as a local copy of what lies there.

    Args:
        place: A path, or an address.
        anew: Whether every object is read, also where the store says that it has not changed.

    Raises:
        UsageError: The address cannot be used.
        InputError: There is no run.
        StoreError: It does not answer, or a process is sending there just now.
    """
    address = address_of(place)
    if not address:
        return Path(place)
    remote = _opened(address, writes=False)
    with as_one_line(address):
        remote.fetch(anew=anew)
    return remote.local


class _LeaseLost(BaseException):
    """Ends the work of a process whose lease is another's; no handler of errors is to take it for one."""


@contextmanager
def _stoppable() -> Generator[None]:
    """Let another thread end the work of this one, also where Ctrl-C is ignored, as behind ``nohup``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise _LeaseLost

    before = signal.signal(_STOP, stop)
    try:
        yield
    finally:
        signal.signal(_STOP, before)


class _Sender(threading.Thread):
    """Sends what is finished and renews the lease while the work goes on."""

    def __init__(self, remote: Remote, held: lease.Lease, outputs: Sequence[str] | None) -> None:
        super().__init__(daemon=True, name="sending")
        self._remote, self._held, self._outputs = remote, held, outputs
        self._over = threading.Event()
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.lost: StoreError | None = None

    def run(self) -> None:
        """Until the work is over, or the lease is another's: then the work ends, which nobody would see."""
        while not self._over.wait(min(_SECONDS_BETWEEN, self._held.expiry / 6)):
            try:
                self._held.renew()
                if self._outputs is None:
                    self._remote.send(self._held.check)
            except StoreError as error:
                self.lost = error
                if self._interrupts and not self._over.is_set():
                    _thread.interrupt_main(_STOP)
                return
            except Exception:
                # A store that does not answer for a while is asked again; the last try tells.
                continue

    def end(self, *, is_well: bool) -> None:
        """Send the rest.

        Args:
            is_well: Whether the work came to its end: else nothing is removed, and of work that reads nothing
                is sent.
        """
        self._over.set()
        if self.is_alive():
            self.join()
        for left in reversed(range(_TRIES)):
            if self.lost is not None:
                return
            try:
                if is_well or self._outputs is None:
                    self._held.renew()
                    self._remote.send(self._held.check, self._outputs)
                if is_well and self._outputs is None:
                    self._remote.remove_stale(self._held.check)
                return
            except StoreError as error:
                self.lost = error
            except Exception as error:
                if not left:
                    self.lost = StoreError(
                        f"{self._held.where}: {line_of(error)}; everything lies in {self._remote.local}, and "
                        "the same command sends it"
                    )


def _opened(address: str, *, writes: bool) -> Remote:
    """A folder at an address that answers, with the copy of those that write there, or of those that read."""
    system, root = open_address(address, manifest.NAME)
    name = f"{slug(address)}-{hash_text(address)[:12]}"
    writers, readers = copies_folder() / name, copies_folder() / f"{name}-read"
    local, beside = (writers, None) if writes else (readers, writers)
    local.mkdir(parents=True, exist_ok=True)
    return Remote(system, root, address, local, beside)
