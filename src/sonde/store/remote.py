"""Remote run folders (``s3://bucket/run``), their manifests and the synchronisation of local copies.

Finished files are sent before their receipts. Writers and readers use separate copies: the copy of readers
mirrors the remote folder, damage included, and that of writers is its next state.

The manifest lists sonde's objects, so that no other is ever changed. It is written before the objects that it
lists are sent. So objects of a killed process are known as sonde's, and all others as somebody else's.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.base.files import try_hard_link, write_atomic
from sonde.base.fingerprint import hash_bytes, hash_file, hash_text
from sonde.store import lock
from sonde.store.address import (
    SyncRecord,
    get_copies_folder,
    get_stamp,
    open_address,
    parse_address,
    raise_store_errors,
    read_sync_records,
    to_line,
    write_sync_records,
)
from sonde.store.checksums import (
    RECEIPT_FOLDER,
    list_files_with_receipt,
    list_files_without_receipt,
    parse_receipt,
    receipt_path,
    receipt_to_file,
)
from sonde.store.run_folder import slug

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


_FLAT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"})
"""Protocols of stores with atomic writes and no folders; creating a folder there would create a bucket."""


_MAXIMUM_NAMES = 3


_FETCH_TRIES = 5


_FETCH_SECONDS = 0.5


@dataclass(slots=True)
class RemoteFolder:
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
    _is_manifest_current: bool = True
    _records: dict[str, SyncRecord] = field(default_factory=dict[str, SyncRecord])

    def check_destination(self, *, may_create: bool) -> None:
        """Check before the first write that the remote folder is a run, or empty.

        Args:
            may_create: Whether a new run may be created in an empty folder.

        Raises:
            UsageError: The folder holds objects that sonde has not written.
            InputError: There is no run, and none may be created.
        """
        if self.system.exists(f"{self.root}/{MANIFEST_NAME}"):
            return
        foreign = sorted(name for name in self._list_top_names() if not self._is_leftover(name))
        # A run copied by another program has no manifest.
        if RECEIPT_FOLDER in foreign:
            self._refresh(writable=True)
            if self._files is not None:
                return
        if not may_create:
            raise self._build_missing_error()
        if foreign:
            names = ", ".join(map(repr, foreign[:_MAXIMUM_NAMES])) + (
                ", ..." if len(foreign) > _MAXIMUM_NAMES else ""
            )
            raise UsageError(
                f"{self.address} has {names} and is not a run; name an empty place, such as "
                f"{self.address}/run"
            )

    def fetch(
        self,
        *,
        writable: bool = False,
        has_lease: bool = False,
        may_create: bool = False,
        reread: bool = False,
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
        records = read_sync_records(self.local, self.address)
        for is_last in (*[False] * (_FETCH_TRIES - 1), True):
            self._refresh(writable=writable)
            if self._files is None and not may_create:
                raise self._build_missing_error()
            if self._files is None:
                self._records = {}
                break
            invalid = self._update_copy(records, writable=writable, reread=reread)
            write_sync_records(self.local, self.address, self._records)
            if not invalid or has_lease or lock.LEASE_NAME not in self._objects:
                break
            # A writer sends a file before its receipt.
            if is_last:
                holder = lock.read_holder(self.system, f"{self.root}/{lock.LEASE_NAME}")
                raise StoreError(
                    f"{self.address}/{invalid[0]} is being written by {holder}; read it when that has ended, "
                    "or, if it was killed, give its command again"
                )
            time.sleep(_FETCH_SECONDS)
            records = self._records
        # A process of this machine may have written files that it has not sent yet.
        if not writable and (self._files is None or lock.LEASE_NAME not in self._objects):
            self._clear_copy()

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
        files_with_receipt = list_files_with_receipt(self.local)
        # Each file with its receipt, or an empty text.
        pairs = {
            name: receipt_path(folder, relative).relative_to(self.local).as_posix()
            for name, (folder, relative) in files_with_receipt.items()
        }
        pairs |= (
            dict.fromkeys(list_files_without_receipt(self.local, files_with_receipt), "")
            if (self.local / RECEIPT_FOLDER).is_dir()
            else {}
        )
        new = {
            name: receipt
            for name, receipt in pairs.items()
            if outputs is None or any(fnmatchcase(name, pattern) for pattern in outputs)
            if not (self._is_in_sync(name) and (not receipt or self._is_in_sync(receipt)))
        }
        if not new and self._is_manifest_current:
            return 0
        files = self._claim_files(
            [path for name, receipt in new.items() for path in (name, receipt) if path], check
        )
        for name, receipt in new.items():
            # The run may remove files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                files[name] = self._send_file(name, receipt, check)
        self._write_manifest(files)
        self._refresh_records()
        return len(new)

    def remove_stale(self, check: Callable[[], None]) -> None:
        """Remove remote files that the manifest lists and the copy lacks, each receipt before its file."""
        files = dict(self._files or {})
        stale = [name for name in files if not (self.local / name).exists()]
        if not stale or not (self.local / RECEIPT_FOLDER).is_dir():
            return
        for name in sorted(stale, key=lambda path: (not receipt_to_file(path), path)):
            check()
            with contextlib.suppress(FileNotFoundError):
                self.system.rm_file(f"{self.root}/{name}")
            del files[name]
            self._records.pop(name, None)
        self._write_manifest(files)
        self._refresh_records()

    def prepare_path(self, relative: str) -> str:
        """Return the remote path of a file, after creating its folder if the store has folders."""
        target = f"{self.root}/{relative}"
        if not self._is_flat:
            self.system.makedirs(target.rpartition("/")[0], exist_ok=True)
        return target

    @property
    def _is_flat(self) -> bool:
        protocols = self.system.protocol
        return not _FLAT_STORES.isdisjoint([protocols] if isinstance(protocols, str) else protocols)

    def _list_top_names(self) -> list[str]:
        """List the names at the top of the remote folder, without empty folders."""
        try:
            entries = self.system.ls(self.root, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        entries_by_name = {
            get_relative_path(self.root, entry["name"]).partition("/")[0]: entry for entry in entries
        }
        return [
            name
            for name, entry in entries_by_name.items()
            if name
            if self._is_flat
            or entry["type"] != "directory"
            or any(files for _, _, files in self.system.walk(entry["name"]))
        ]

    def _is_leftover(self, name: str) -> bool:
        """Return whether an object is left from a process of sonde that was killed before it sent files."""
        is_lease = name == lock.LEASE_NAME and lock.is_lease(self.system, f"{self.root}/{name}")
        return is_lease or name == TEMPORARY_NAME

    def _build_missing_error(self) -> InputError:
        return InputError(f"{self.address}: no run here; `sonde run -o {self.address}` makes one")

    def _found(self) -> dict[str, int]:
        """List all remote objects with their sizes in bytes."""
        self.system.invalidate_cache()
        details_by_path: dict[str, Any] = self.system.find(self.root, detail=True)
        details_by_name = {
            get_relative_path(self.root, path): details for path, details in details_by_path.items()
        }
        self._objects = {
            name: hash_text(repr(sorted(map(repr, details.items()))))
            for name, details in details_by_name.items()
        }
        return {name: int(details.get("size") or 0) for name, details in details_by_name.items()}

    def _refresh(self, *, writable: bool = False) -> None:
        """List the remote objects and read the manifest; if `writable`, a damaged manifest is rebuilt."""
        sizes = self._found()
        self._is_manifest_current = True
        try:
            self._files = read_manifest(self.system, self.root, sizes)
        except StoreError as error:
            if not writable:
                raise StoreError(f"{self.address}/{error}; the same `sonde run` rewrites it") from error
            self._files = _read_receipts(self.system, self.root, sizes) or {}
            self._is_manifest_current = False

    def _update_copy(self, records: Mapping[str, SyncRecord], *, writable: bool, reread: bool) -> list[str]:
        """Update the local copy from the remote folder; return files that do not match their receipts."""
        files = self._files or {}
        names = [name for name in files if name in self._objects]
        for name in records:
            # A writer keeps files that are missing there, or not listed any more, and sends them again.
            exists, is_in_manifest = name in self._objects, name in files
            if not (exists or is_in_manifest if writable else exists and is_in_manifest):
                (self.local / name).unlink(missing_ok=True)
        known_records = {} if reread else records
        self._records = {
            name: record
            for name in names
            if (record := self._find_current_record(name, known_records)) is not None
        }
        newer = {
            name
            for name in names
            if writable and name not in self._records and (self.local / name).is_file()
            if name in records and records[name].there == self._objects[name]
        }
        receipts = [name for name in names if receipt_to_file(name)]
        missing = [name for name in receipts if name not in self._records and name not in newer]
        for name, content in read_objects(self.system, self.root, missing).items():
            if self._is_inside_copy(name):
                write_atomic(self.local / name, content)
                self._records[name] = SyncRecord(
                    self._objects[name], hash_bytes(content), get_stamp(self.local / name)
                )
        invalid: list[str] = []
        for name, digest in (
            *self._iterate_files_with_receipt(receipts),
            *((name, files[name]) for name in names if files[name]),
        ):
            if name not in self._records and name not in newer and name in self._objects:
                self._bring(name, digest, keep_local=writable, lacks_receipt=bool(files[name]))
            if name in self._records and self._records[name].content != digest and not files[name]:
                invalid.append(name)
        return invalid

    def _clear_copy(self) -> None:
        """Remove local files that the remote folder lacks, such as a report that was never sent."""
        files = list_files_with_receipt(self.local)
        local_names = {*files, *list_files_without_receipt(self.local, files)}
        for folder, relative in files.values():
            receipt = receipt_path(folder, relative)
            if receipt.relative_to(self.local).as_posix() not in self._records:
                receipt.unlink(missing_ok=True)
        for name in local_names.difference(self._records):
            (self.local / name).unlink(missing_ok=True)

    def _iterate_files_with_receipt(self, receipts: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield files whose receipt was downloaded, with the hash in the receipt."""
        for name in receipts:
            if name in self._records and (file := receipt_to_file(name)) in (self._files or {}):
                receipt = parse_receipt((self.local / name).read_bytes())
                yield file, receipt.content if receipt else ""

    def _find_current_record(self, name: str, records: Mapping[str, SyncRecord]) -> SyncRecord | None:
        """Return the sync record of an object if it and its local file have not changed, else None."""
        record = records.get(name)
        if record is None or record.there != self._objects[name]:
            return None
        stamp = get_stamp(self.local / name)
        if not stamp or (stamp != record.here and hash_file(self.local / name) != record.content):
            return None
        return SyncRecord(record.there, record.content, stamp)

    def _bring(self, name: str, digest: str, *, keep_local: bool, lacks_receipt: bool) -> None:
        """Download a file; one without a receipt only if it matches the manifest.

        Args:
            name: Relative path.
            digest: Expected hash of the content.
            keep_local: Whether to keep a local file that has this hash, to be sent.
            lacks_receipt: Whether the file has no receipt.
        """
        target = self.local / name
        if not self._is_inside_copy(name) or (
            keep_local and target.is_file() and hash_file(target) == digest
        ):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.fetched.tmp")
        try:
            if lacks_receipt or not self._take_from_neighbour(name, digest, temporary):
                self.system.get_file(f"{self.root}/{name}", str(temporary))
            content = hash_file(temporary)
            if lacks_receipt and content != digest:
                return
            temporary.replace(target)
            self._records[name] = SyncRecord(self._objects[name], content, get_stamp(target))
        except FileNotFoundError:
            return
        finally:
            temporary.unlink(missing_ok=True)

    def _take_from_neighbour(self, name: str, digest: str, target: Path) -> bool:
        """Link a file from the other local copy, if the object has not changed since that was sent."""
        record = read_sync_records(self.beside, self.address).get(name) if self.beside is not None else None
        if (
            self.beside is None
            or record is None
            or record.there != self._objects[name]
            or record.content != digest
        ):
            return False
        if try_hard_link(self.beside / name, target) and hash_file(target) == digest:
            return True
        # Writing through the hard link would change the file of the other copy.
        target.unlink(missing_ok=True)
        return False

    def _is_inside_copy(self, name: str) -> bool:
        """Return whether a path stays inside the copy, with links resolved."""
        return (self.local / name).resolve().is_relative_to(self.local.resolve())

    def _is_in_sync(self, name: str) -> bool:
        return name in self._records and self._records[name].here == get_stamp(self.local / name)

    def _claim_files(self, names: Sequence[str], check: Callable[[], None]) -> dict[str, str]:
        """Add files to the manifest before they are sent."""
        files = dict(self._files or {})
        for name in names:
            if name not in files and name in self._objects:
                raise StoreError(
                    f"{self.address}/{name} is there and not part of this run; move it, or name "
                    f"another place with -o (finished parts are in {self.local})"
                )
            files.setdefault(name, "")
        check()
        self._write_manifest(files)
        return files

    def _write_manifest(self, files: dict[str, str]) -> None:
        if files == self._files and self._is_manifest_current:
            return
        content, target = format_manifest(files), self.prepare_path(MANIFEST_NAME)
        if self._is_flat:
            self.system.pipe_file(target, content)
        else:
            temporary = self.prepare_path(TEMPORARY_NAME)
            self.system.pipe_file(temporary, content)
            self.system.mv(temporary, target)
        self._files, self._is_manifest_current = dict(files), True

    def _send_file(self, name: str, receipt: str, check: Callable[[], None]) -> str:
        """Send a file, then its receipt; return its entry in the manifest."""
        receipt_content = (self.local / receipt).read_bytes() if receipt else b""
        receipt_stamp = get_stamp(self.local / receipt) if receipt else ""
        if not self._is_in_sync(name):
            local_stamp = get_stamp(self.local / name)
            content = hash_file(self.local / name)
            check()
            self._put(self.local / name, name)
            self._records[name] = SyncRecord("", content, local_stamp)
        if receipt:
            check()
            self.system.pipe_file(self.prepare_path(receipt), receipt_content)
            self._records[receipt] = SyncRecord("", hash_bytes(receipt_content), receipt_stamp)
        return "" if receipt else self._records[name].content

    def _put(self, path: Path, relative: str) -> None:
        self.system.put_file(str(path), self.prepare_path(relative))

    def _refresh_records(self) -> None:
        """Complete the sync records of sent files with the store's metadata."""
        self._found()
        for name, record in self._records.items():
            if not record.there and name in self._objects:
                self._records[name] = SyncRecord(self._objects[name], record.content, record.here)
        write_sync_records(self.local, self.address, self._records)


_SECONDS_BETWEEN = 5.0


_SEND_TRIES = 3


_STOP_SIGNAL = signal.SIGUSR1
"""Signal that interrupts the main thread when the lease is lost; no other process sends it."""


@contextmanager
def sync_folder(
    location: Path,
    note: Callable[[str], None],
    *,
    outputs: Sequence[str] | None = None,
    may_create: bool | None = None,
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
    address = parse_address(location)
    if not address:
        yield location
        return
    remote = _open_remote(address, writable=outputs is None)
    may_create = outputs is None if may_create is None else may_create
    with raise_store_errors(address):
        remote.check_destination(may_create=may_create)
        lease = lock.Lease(remote.system, remote.prepare_path(lock.LEASE_NAME), address, lock.EXPIRY_SECONDS)
        lease.take(note)
    sender = _Sender(remote, lease, outputs)
    try:
        with _allow_interruption():
            with raise_store_errors(address):
                remote.fetch(writable=outputs is None, has_lease=True, may_create=may_create)
            is_complete = False
            try:
                sender.start()
                yield remote.local
                is_complete = True
            finally:
                sender.end(is_complete=is_complete)
    except _LeaseLost:
        # Raised below, after the lease is released.
        pass
    finally:
        with contextlib.suppress(Exception):
            lease.release()
    if sender.failure:
        raise sender.failure
    note(f"all of {remote.local} is at {address}")


def fetch_folder(location: str | os.PathLike[str], *, reread: bool = False) -> Path:
    """Return a local folder to read from: a path as it is, an address as a downloaded copy.

    Args:
        location: A path or an address.
        reread: Whether to download every object again, even if the store reports no change.

    Raises:
        UsageError: The address is invalid.
        InputError: There is no run.
        StoreError: The address does not answer, or another process is sending.
    """
    address = parse_address(location)
    if not address:
        return Path(location)
    remote = _open_remote(address, writable=False)
    with raise_store_errors(address):
        remote.fetch(reread=reread)
    return remote.local


class _LeaseLost(BaseException):
    """Raised when another process took over the lease; a `BaseException`, so that no handler swallows it."""


@contextmanager
def _allow_interruption() -> Generator[None]:
    """Allow another thread to interrupt the main thread, even if Ctrl-C is ignored, as under ``nohup``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signal_number: int, frame: object) -> None:
        raise _LeaseLost

    previous_handler = signal.signal(_STOP_SIGNAL, stop)
    try:
        yield
    finally:
        signal.signal(_STOP_SIGNAL, previous_handler)


class _Sender(threading.Thread):
    """Thread that sends finished files and renews the lease."""

    def __init__(self, remote: RemoteFolder, lease: lock.Lease, outputs: Sequence[str] | None) -> None:
        super().__init__(daemon=True, name="sending")
        self._remote, self._held, self._outputs = remote, lease, outputs
        self._end_event = threading.Event()
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.failure: StoreError | None = None

    def run(self) -> None:
        """Run until `end` is called, or the lease is lost: then the main thread is interrupted."""
        while not self._end_event.wait(min(_SECONDS_BETWEEN, self._held.expiry / 6)):
            try:
                self._held.renew()
                if self._outputs is None:
                    self._remote.send(self._held.check)
            except StoreError as error:
                self.failure = error
                if self._interrupts and not self._end_event.is_set():
                    _thread.interrupt_main(_STOP_SIGNAL)
                return
            except Exception:
                # Errors of the connection are retried; only the last try in `end` reports them.
                continue

    def end(self, *, is_complete: bool) -> None:
        """Send the remaining files.

        Args:
            is_complete: Whether the context succeeded; else nothing is removed, and with `outputs` nothing is
                sent.
        """
        self._end_event.set()
        if self.is_alive():
            self.join()
        for remaining_tries in reversed(range(_SEND_TRIES)):
            if self.failure is not None:
                return
            try:
                if is_complete or self._outputs is None:
                    self._held.renew()
                    self._remote.send(self._held.check, self._outputs)
                if is_complete and self._outputs is None:
                    self._remote.remove_stale(self._held.check)
                return
            except StoreError as error:
                self.failure = error
            except Exception as error:
                if not remaining_tries:
                    self.failure = StoreError(
                        f"{self._held.where}: {to_line(error)}; all files are in "
                        f"{self._remote.local}, and the same command sends it"
                    )


def _open_remote(address: str, *, writable: bool) -> RemoteFolder:
    """Open a remote folder with the local copy for writers or for readers."""
    system, root = open_address(address, MANIFEST_NAME)
    name = f"{slug(address)}-{hash_text(address)[:12]}"
    writers, readers = get_copies_folder() / name, get_copies_folder() / f"{name}-read"
    local, neighbour = (writers, None) if writable else (readers, writers)
    local.mkdir(parents=True, exist_ok=True)
    return RemoteFolder(system, root, address, local, neighbour)
