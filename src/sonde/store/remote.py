"""Remote run folders (``s3://bucket/run``) and the synchronisation of their local copies.

Finished files are sent before their receipts. Writers and readers use separate copies: the copy of readers
mirrors the remote folder, damage included, and that of writers is its next state.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.files import linked, write_atomic
from sonde.base.fingerprint import hash_bytes, hash_file, hash_text
from sonde.store import lock, manifest
from sonde.store.address import (
    Same,
    address_of,
    as_one_line,
    copies_folder,
    line_of,
    open_address,
    read_same,
    stamp_of,
    write_same,
)
from sonde.store.checksums import FOLDER, file_of, receipt_from, signed_files, unsigned_files
from sonde.store.run_folder import slug

_FLAT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"})
"""Protocols of stores with atomic writes and no folders; creating a folder there would create a bucket."""


_SHOWN = 3


_SENDING_TRIES = 5


_SENDING_SECONDS = 0.5


@dataclass(slots=True)
class Remote:
    """A remote folder and its local copy.

    Attributes:
        system: The fsspec file system.
        root: Path of the folder there.
        address: Address of the folder, for messages.
        local: Path of the local copy.
        beside: Another local copy, from which files may be taken.
    """

    system: Any
    root: str
    address: str
    local: Path
    beside: Path | None = None
    _objects: dict[str, str] = field(default_factory=dict[str, str])
    _files: dict[str, str] | None = None
    _is_listed: bool = True
    _same: dict[str, Same] = field(default_factory=dict[str, Same])

    def must_be_ours(self, *, begins: bool) -> None:
        """Check before the first write that the remote folder is a run, or empty.

        Args:
            may_create: Whether a new run may be created in an empty folder.

        Raises:
            UsageError: The folder holds objects that sonde has not written.
            InputError: There is no run, and none may be created.
        """
        if self.system.exists(f"{self.root}/{manifest.NAME}"):
            return
        foreign = sorted(name for name in self._first_names() if not self._is_overhead(name))
        # A run copied by another program has no manifest.
        if FOLDER in foreign:
            self._look(writes=True)
            if self._files is not None:
                return
        if not begins:
            raise self._no_run()
        if foreign:
            some = ", ".join(map(repr, foreign[:_SHOWN])) + (", ..." if len(foreign) > _SHOWN else "")
            raise UsageError(
                f"{self.address} holds {some} and no run; name a place where nothing lies, such as "
                f"{self.address}/run"
            )

    def fetch(
        self, *, writes: bool = False, holds: bool = False, begins: bool = False, anew: bool = False
    ) -> None:
        """Download what the local copy lacks.

        Args:
            writable: Whether to keep intact local files that differ, to be sent; else the copy becomes a
                mirror of the remote folder.
            has_lease: Whether this process holds the lease.
            may_create: Whether the remote folder may be empty.
            reread: Whether to download everything again, even if the store reports no change.

        Raises:
            InputError: There is no run.
            StoreError: The manifest is damaged, or another process is sending.
        """
        before = read_same(self.local, self.address)
        for last in (*[False] * (_SENDING_TRIES - 1), True):
            self._look(writes=writes)
            if self._files is None and not begins:
                raise self._no_run()
            if self._files is None:
                self._same = {}
                break
            torn = self._mirror(before, writes=writes, anew=anew)
            write_same(self.local, self.address, self._same)
            if not torn or holds or lock.LEASE not in self._objects:
                break
            # A writer sends a file before its receipt.
            if last:
                holder = lock.holder_at(self.system, f"{self.root}/{lock.LEASE}")
                raise StoreError(
                    f"{self.address}/{torn[0]} is being written by {holder}; read it when that has ended, "
                    "or, if it was killed, give its command again"
                )
            time.sleep(_SENDING_SECONDS)
            before = self._same
        # A process of this machine may have written files that it has not sent yet.
        if not writes and (self._files is None or lock.LEASE not in self._objects):
            self._clear()

    def send(self, check: Callable[[], None], outputs: Sequence[str] | None = None) -> int:
        """Send new and changed files, each before its receipt.

        Args:
            check: Raises if nothing may be written any more.
            outputs: Patterns of files to send; None for all.

        Returns:
            Number of files sent.

        Raises:
            StoreError: The path of a file is taken by an object that is not sonde's.
        """
        signed = signed_files(self.local)
        # Each file with its receipt, or an empty text.
        pairs = {
            name: (folder / FOLDER / f"{relative}.json").relative_to(self.local).as_posix()
            for name, (folder, relative) in signed.items()
        }
        pairs |= (
            dict.fromkeys(unsigned_files(self.local, signed), "") if (self.local / FOLDER).is_dir() else {}
        )
        new = {
            name: receipt
            for name, receipt in pairs.items()
            if outputs is None or any(fnmatchcase(name, one) for one in outputs)
            if not (self._is_same(name) and (not receipt or self._is_same(receipt)))
        }
        if not new and self._is_listed:
            return 0
        files = self._claimed([one for name, receipt in new.items() for one in (name, receipt) if one], check)
        for name, receipt in new.items():
            # The run may remove files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                files[name] = self._sent(name, receipt, check)
        self._write_manifest(files)
        self._look_again()
        return len(new)

    def remove_stale(self, check: Callable[[], None]) -> None:
        """Remove remote files that the manifest lists and the copy lacks, each receipt before its file."""
        files = dict(self._files or {})
        stale = [name for name in files if not (self.local / name).exists()]
        if not stale or not (self.local / FOLDER).is_dir():
            return
        for name in sorted(stale, key=lambda one: (not file_of(one), one)):
            check()
            with contextlib.suppress(FileNotFoundError):
                self.system.rm_file(f"{self.root}/{name}")
            del files[name]
            self._same.pop(name, None)
        self._write_manifest(files)
        self._look_again()

    def place_for(self, relative: str) -> str:
        """Return the remote path of a file, after creating its folder if the store has folders."""
        target = f"{self.root}/{relative}"
        if not self._is_flat:
            self.system.makedirs(target.rpartition("/")[0], exist_ok=True)
        return target

    @property
    def _is_flat(self) -> bool:
        protocols = self.system.protocol
        return not _FLAT.isdisjoint([protocols] if isinstance(protocols, str) else protocols)

    def _first_names(self) -> list[str]:
        """List the names at the top of the remote folder, without empty folders."""
        try:
            found = self.system.ls(self.root, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        held = {manifest.relative_to(self.root, one["name"]).partition("/")[0]: one for one in found}
        return [
            name
            for name, one in held.items()
            if name
            if self._is_flat
            or one["type"] != "directory"
            or any(files for _, _, files in self.system.walk(one["name"]))
        ]

    def _is_overhead(self, name: str) -> bool:
        """Return whether an object is left from a process of sonde that was killed before it sent files."""
        is_lease = name == lock.LEASE and lock.is_lease(self.system, f"{self.root}/{name}")
        return is_lease or name == manifest.UNFINISHED

    def _no_run(self) -> InputError:
        return InputError(f"{self.address}: no run here; `sonde run -o {self.address}` makes one")

    def _found(self) -> dict[str, int]:
        """List all remote objects with their sizes in bytes."""
        self.system.invalidate_cache()
        found: dict[str, Any] = self.system.find(self.root, detail=True)
        held = {manifest.relative_to(self.root, path): about for path, about in found.items()}
        self._objects = {name: hash_text(repr(sorted(map(repr, one.items())))) for name, one in held.items()}
        return {name: int(about.get("size") or 0) for name, about in held.items()}

    def _look(self, *, writes: bool = False) -> None:
        """List the remote objects and read the manifest; if `writable`, a damaged manifest is rebuilt."""
        sizes = self._found()
        self._is_listed = True
        try:
            self._files = manifest.read_manifest(self.system, self.root, sizes)
        except StoreError as error:
            if not writes:
                raise StoreError(f"{self.address}/{error}; the same `sonde run` writes it anew") from error
            self._files, self._is_listed = manifest.rebuilt(self.system, self.root, sizes), False

    def _mirror(self, before: Mapping[str, Same], *, writes: bool, anew: bool) -> list[str]:
        """Update the local copy from the remote folder; return files that do not match their receipts."""
        files = self._files or {}
        there = [name for name in files if name in self._objects]
        for name in before:
            # A writer keeps files that are missing there, or not listed any more, and sends them again.
            is_there, is_listed = name in self._objects, name in files
            if not (is_there or is_listed if writes else is_there and is_listed):
                (self.local / name).unlink(missing_ok=True)
        trusted = {} if anew else before
        self._same = {name: one for name in there if (one := self._unchanged(name, trusted)) is not None}
        newer = {
            name
            for name in there
            if writes and name not in self._same and (self.local / name).is_file()
            if name in before and before[name].there == self._objects[name]
        }
        receipts = [name for name in there if file_of(name)]
        missing = [name for name in receipts if name not in self._same and name not in newer]
        for name, content in manifest.read_objects(self.system, self.root, missing).items():
            if self._is_within(name):
                write_atomic(self.local / name, content)
                self._same[name] = Same(self._objects[name], hash_bytes(content), stamp_of(self.local / name))
        torn: list[str] = []
        for name, wanted in (*self._signed(receipts), *_loose(there, files)):
            if name not in self._same and name not in newer and name in self._objects:
                self._bring(name, wanted, kept=writes, loose=bool(files[name]))
            if name in self._same and self._same[name].content != wanted and not files[name]:
                torn.append(name)
        return torn

    def _clear(self) -> None:
        """Remove local files that the remote folder lacks, such as a report that was never sent."""
        signed = signed_files(self.local)
        here = {*signed, *unsigned_files(self.local, signed)}
        for folder, relative in signed.values():
            receipt = folder / FOLDER / f"{relative}.json"
            if receipt.relative_to(self.local).as_posix() not in self._same:
                receipt.unlink(missing_ok=True)
        for name in here.difference(self._same):
            (self.local / name).unlink(missing_ok=True)

    def _signed(self, receipts: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield files whose receipt was downloaded, with the hash in the receipt."""
        for name in receipts:
            if name in self._same and (file := file_of(name)) in (self._files or {}):
                receipt = receipt_from((self.local / name).read_bytes())
                yield file, receipt.content if receipt else ""

    def _unchanged(self, name: str, before: Mapping[str, Same]) -> Same | None:
        """Return the sync record of an object if it and its local file have not changed, else None."""
        one = before.get(name)
        if one is None or one.there != self._objects[name]:
            return None
        stamp = stamp_of(self.local / name)
        if not stamp or (stamp != one.here and hash_file(self.local / name) != one.content):
            return None
        return Same(one.there, one.content, stamp)

    def _bring(self, name: str, wanted: str, *, kept: bool, loose: bool) -> None:
        """Download a file; one without a receipt only if it matches the manifest.

        Args:
            name: Relative path.
            digest: Expected hash of the content.
            keep_local: Whether to keep a local file that has this hash, to be sent.
            lacks_receipt: Whether the file has no receipt.
        """
        target = self.local / name
        if not self._is_within(name) or (kept and target.is_file() and hash_file(target) == wanted):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.fetched.tmp")
        try:
            if loose or not self._taken_beside(name, wanted, temporary):
                self.system.get_file(f"{self.root}/{name}", str(temporary))
            content = hash_file(temporary)
            if loose and content != wanted:
                return
            temporary.replace(target)
            self._same[name] = Same(self._objects[name], content, stamp_of(target))
        except FileNotFoundError:
            return
        finally:
            temporary.unlink(missing_ok=True)

    def _taken_beside(self, name: str, wanted: str, target: Path) -> bool:
        """Link a file from the other local copy, if the object has not changed since that was sent."""
        one = read_same(self.beside, self.address).get(name) if self.beside is not None else None
        if self.beside is None or one is None or one.there != self._objects[name] or one.content != wanted:
            return False
        if linked(self.beside / name, target) and hash_file(target) == wanted:
            return True
        # Writing through the hard link would change the file of the other copy.
        target.unlink(missing_ok=True)
        return False

    def _is_within(self, name: str) -> bool:
        """Return whether a path stays inside the copy, with links resolved."""
        return (self.local / name).resolve().is_relative_to(self.local.resolve())

    def _is_same(self, name: str) -> bool:
        return name in self._same and self._same[name].here == stamp_of(self.local / name)

    def _claimed(self, names: Sequence[str], check: Callable[[], None]) -> dict[str, str]:
        """Add files to the manifest before they are sent."""
        files = dict(self._files or {})
        for name in names:
            if name not in files and name in self._objects:
                raise StoreError(
                    f"{self.address}/{name} lies there and is not of this run; move it, or name another "
                    f"place with -o (what is finished lies in {self.local})"
                )
            files.setdefault(name, "")
        check()
        self._write_manifest(files)
        return files

    def _write_manifest(self, files: dict[str, str]) -> None:
        if files == self._files and self._is_listed:
            return
        content, target = manifest.manifest_bytes(files), self.place_for(manifest.NAME)
        if self._is_flat:
            self.system.pipe_file(target, content)
        else:
            unfinished = self.place_for(manifest.UNFINISHED)
            self.system.pipe_file(unfinished, content)
            self.system.mv(unfinished, target)
        self._files, self._is_listed = dict(files), True

    def _sent(self, name: str, receipt: str, check: Callable[[], None]) -> str:
        """Send a file, then its receipt; return its entry in the manifest."""
        signature = (self.local / receipt).read_bytes() if receipt else b""
        stamp = stamp_of(self.local / receipt) if receipt else ""
        if not self._is_same(name):
            here = stamp_of(self.local / name)
            content = hash_file(self.local / name)
            check()
            self._put(self.local / name, name)
            self._same[name] = Same("", content, here)
        if receipt:
            check()
            self.system.pipe_file(self.place_for(receipt), signature)
            self._same[receipt] = Same("", hash_bytes(signature), stamp)
        return "" if receipt else self._same[name].content

    def _put(self, path: Path, relative: str) -> None:
        self.system.put_file(str(path), self.place_for(relative))

    def _look_again(self) -> None:
        """Complete the sync records of sent files with the store's metadata."""
        self._found()
        for name, one in self._same.items():
            if not one.there and name in self._objects:
                self._same[name] = Same(self._objects[name], one.content, one.here)
        write_same(self.local, self.address, self._same)


def _loose(there: Sequence[str], files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield files without a receipt, with the hash in the manifest."""
    for name in there:
        if files[name]:
            yield name, files[name]


_SECONDS_BETWEEN = 5.0


_TRIES = 3


_STOP = signal.SIGUSR1
"""Signal that interrupts the main thread when the lease is lost; no other process sends it."""


@contextmanager
def in_step(
    place: Path,
    note: Callable[[str], None],
    *,
    outputs: Sequence[str] | None = None,
    begins: bool | None = None,
) -> Generator[Path]:
    """Synchronise a folder with this context: a local path as it is, an address by its local copy.

    The remote folder is downloaded first. Finished files are sent during the context and at its end, also
    after an error, under a lease that excludes other writers. Objects that sonde has not written are never
    changed; files that the context removes are removed remotely if it succeeds.

    Args:
        location: A path or an address.
        note: Called with messages for the user.
        outputs: For contexts that only read the run: patterns of the files that they add. Only these are
            sent, and only on success.
        may_create: Whether the remote folder may be empty; by default if `outputs` is None.

    Yields:
        The local folder.

    Raises:
        UsageError: The address is invalid, holds something other than a run, or another process writes there.
        InputError: There is no run to read.
        StoreError: The address does not answer, or another process took over; finished files are in the copy.
    """
    address = address_of(place)
    if not address:
        yield place
        return
    remote, begins = _opened(address, writes=outputs is None), outputs is None if begins is None else begins
    with as_one_line(address):
        remote.must_be_ours(begins=begins)
        held = lock.Lease(remote.system, remote.place_for(lock.LEASE), address, lock.EXPIRY_SECONDS)
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
        # Raised below, after the lease is released.
        pass
    finally:
        with contextlib.suppress(Exception):
            held.give_back()
    if sender.lost:
        raise sender.lost
    note(f"everything of {remote.local} lies at {address}")


def fetched(place: str | os.PathLike[str], *, anew: bool = False) -> Path:
    """Return a local folder to read from: a path as it is, an address as a downloaded copy.

    Args:
        location: A path or an address.
        reread: Whether to download every object again, even if the store reports no change.

    Raises:
        UsageError: The address is invalid.
        InputError: There is no run.
        StoreError: The address does not answer, or another process is sending.
    """
    address = address_of(place)
    if not address:
        return Path(place)
    remote = _opened(address, writes=False)
    with as_one_line(address):
        remote.fetch(anew=anew)
    return remote.local


class _LeaseLost(BaseException):
    """Raised when another process took over the lease; a `BaseException`, so that no handler swallows it."""


@contextmanager
def _stoppable() -> Generator[None]:
    """Allow another thread to interrupt the main thread, even if Ctrl-C is ignored, as under ``nohup``."""
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
    """Thread that sends finished files and renews the lease."""

    def __init__(self, remote: Remote, held: lock.Lease, outputs: Sequence[str] | None) -> None:
        super().__init__(daemon=True, name="sending")
        self._remote, self._held, self._outputs = remote, held, outputs
        self._over = threading.Event()
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.lost: StoreError | None = None

    def run(self) -> None:
        """Run until `end` is called, or the lease is lost: then the main thread is interrupted."""
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
                # Errors of the connection are retried; only the last try in `end` reports them.
                continue

    def end(self, *, is_well: bool) -> None:
        """Send the remaining files.

        Args:
            is_complete: Whether the context succeeded; else nothing is removed, and with `outputs` nothing is
                sent.
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
    """Open a remote folder with the local copy for writers or for readers."""
    system, root = open_address(address, manifest.NAME)
    name = f"{slug(address)}-{hash_text(address)[:12]}"
    writers, readers = copies_folder() / name, copies_folder() / f"{name}-read"
    local, beside = (writers, None) if writes else (readers, writers)
    local.mkdir(parents=True, exist_ok=True)
    return Remote(system, root, address, local, beside)
