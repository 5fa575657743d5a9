"""Folders of runs at an address (``s3://bucket/run``): a local copy is worked on and kept in step with it.

What is finished is sent with its receipt, the file first. Whoever fetches believes a file only if it has the
content that its receipt names, so nothing that was sent by half is ever read. Files without a receipt, such
as checkpoints, have their content in one list, which is sent after them.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sonde.base.errors import SondeError, StoreError, UsageError
from sonde.base.files import cache_folder, write_atomic
from sonde.base.fingerprint import hash_file, hash_text
from sonde.store import lease
from sonde.store.receipts import FOLDER as RECEIPTS
from sonde.store.receipts import verify
from sonde.store.rundir import slug

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_UNSIGNED = ".unsigned.json"
"""The list of files without a receipt, with the hash of each."""

_LOCAL = ("file", "local")
_FLAT = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"})
"""Stores without folders: making one there would make a bucket."""

_SECONDS_BETWEEN = 5.0
_ANSWER_SECONDS = 20.0
_LARGEST_LIST = 64 << 20
_TRIES = 3
_STOP = signal.SIGUSR1
"""The signal by which a lost lease ends the work; nothing sends it from outside."""


def address_of(place: str | os.PathLike[str]) -> str:
    """The address that a place is; empty where it is a path of this machine.

    A path joins the slashes of an address, so one of them is enough.

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


@contextmanager
def in_step(place: Path, note: Callable[[str], None]) -> Generator[Path]:
    """Work in a folder wherever it is: a path of this machine as it is, an address through its local copy.

    What lies at the address is fetched first; what is finished here is sent while the work goes on and once
    more when it ends, well or not. Nobody else can write there meanwhile.

    Args:
        place: A path, or an address.
        note: Is told what a person should know.

    Yields:
        The folder to work in.

    Raises:
        UsageError: The address cannot be used, or another process writes there.
        StoreError: It does not answer, or was taken over; what was finished is kept in the local copy.
    """
    address = address_of(place)
    if not address:
        yield place
        return
    remote = _opened(address)
    with _said(address):
        held = lease.Lease(remote.system, remote.place_for(lease.NAME), address, lease.EXPIRY_SECONDS)
        held.take(note)
    sender = _Sender(remote, held)
    try:
        with _stoppable():
            try:
                with _said(address):
                    remote.fetch()
                sender.start()
                yield remote.local
            finally:
                sender.end()
    except _LeaseLost:
        # Said below, once the lease is given back.
        pass
    finally:
        with contextlib.suppress(Exception):
            held.give_back()
    if sender.lost:
        raise sender.lost
    note(f"everything of {remote.local} lies at {address}")


def fetched(place: str | os.PathLike[str]) -> Path:
    """A folder to read from: a path of this machine as it is, an address as a local copy of what lies there.

    Raises:
        UsageError: The address cannot be used.
        StoreError: It does not answer.
    """
    address = address_of(place)
    if not address:
        return Path(place)
    remote = _opened(address)
    with _said(address):
        remote.fetch()
    return remote.local


@dataclass(slots=True)
class Remote:
    """A folder at an address and its local copy.

    Attributes:
        system: The fsspec file system.
        root: The folder's path there.
        local: The copy.
    """

    system: Any
    root: str
    local: Path
    _sent: dict[str, str] = field(default_factory=dict[str, str])

    def fetch(self) -> int:
        """Bring here what lies there whole and is not here; what differs is taken from there.

        Returns:
            The number of files that were brought.
        """
        self.system.invalidate_cache()
        found: dict[str, Any] = self.system.find(self.root, detail=True)
        there = {self._relative(path): int(about.get("size") or 0) for path, about in found.items()}
        receipts = [name for name in there if name.startswith(f"{RECEIPTS}/") and name.endswith(".json")]
        number = 0
        for name, content in self._contents(receipts).items():
            relative, at = name.removeprefix(f"{RECEIPTS}/").removesuffix(".json"), self.local / name
            if at.is_file() and at.read_bytes() == content:
                continue
            try:
                wanted = str(json.loads(content)["content"])
            except (ValueError, LookupError, TypeError):
                continue
            if relative in there and self._bring(relative, wanted):
                write_atomic(at, content)
                number += 1
        if 0 < there.get(_UNSIGNED, 0) <= _LARGEST_LIST:
            for relative, wanted in self._listed().items():
                number += relative in there and self._bring(relative, wanted)
        return number

    def send(self, check: Callable[[], None]) -> int:
        """Send what is new here: each file, then its receipt; the list of files without one comes last.

        Args:
            check: Raises where nothing may be written any more.

        Returns:
            The number of files that were sent.
        """
        number = 0
        for receipt in sorted((self.local / RECEIPTS).rglob("*.json")):
            relative = receipt.relative_to(self.local / RECEIPTS).as_posix().removesuffix(".json")
            with contextlib.suppress(FileNotFoundError):
                content = receipt.read_bytes()
                if self._sent.get(relative) == hash_text(content.decode("utf-8", "replace")):
                    continue
                check()
                self._put(self.local / relative, relative)
                self.system.pipe_file(self.place_for(f"{RECEIPTS}/{relative}.json"), content)
                self._sent[relative] = hash_text(content.decode("utf-8", "replace"))
                number += 1
        return number + self._send_unsigned(check)

    def remove_stale(self, check: Callable[[], None]) -> None:
        """Remove there what was removed here."""
        self.system.invalidate_cache()
        for path in self.system.find(self.root):
            relative = self._relative(path)
            if relative in (lease.NAME, _UNSIGNED) or (self.local / relative).exists():
                continue
            check()
            with contextlib.suppress(FileNotFoundError):
                self.system.rm_file(path)

    def place_for(self, relative: str) -> str:
        """The path of a file there, whose folder is made where the store has any."""
        target = f"{self.root}/{relative}"
        protocols = self.system.protocol
        if _FLAT.isdisjoint([protocols] if isinstance(protocols, str) else protocols):
            self.system.makedirs(target.rpartition("/")[0], exist_ok=True)
        return target

    def _send_unsigned(self, check: Callable[[], None]) -> int:
        if not (self.local / RECEIPTS).is_dir():
            return 0
        content = {
            relative: hash_file(self.local / relative)
            for relative in verify(self.local).unchecked
            if (self.local / relative).is_file()
        }
        new = {name: one for name, one in content.items() if self._sent.get(name) != one}
        for relative, one in new.items():
            check()
            self._put(self.local / relative, relative)
            self._sent[relative] = one
        if new:
            self.system.pipe_file(self.place_for(_UNSIGNED), json.dumps(content, sort_keys=True).encode())
        return len(new)

    def _put(self, path: Path, relative: str) -> None:
        self.system.put_file(str(path), self.place_for(relative))

    def _contents(self, names: list[str]) -> Mapping[str, bytes]:
        if not names:
            return {}
        got = self.system.cat([f"{self.root}/{name}" for name in names], on_error="omit")
        return {self._relative(path): content for path, content in got.items()}

    def _listed(self) -> Mapping[str, str]:
        try:
            return {
                str(name): str(one)
                for name, one in json.loads(self.system.cat_file(f"{self.root}/{_UNSIGNED}")).items()
            }
        except (ValueError, AttributeError):
            return {}

    def _bring(self, relative: str, wanted: str) -> bool:
        """Fetch one file if it has the content that it should have; whatever else lies there is as none."""
        target = self.local / relative
        # What an address holds decides about no path outside its own folder.
        if not target.resolve().is_relative_to(self.local.resolve()):
            return False
        if target.is_file() and hash_file(target) == wanted:
            return True
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            self.system.get_file(f"{self.root}/{relative}", str(temporary))
            if hash_file(temporary) != wanted:
                return False
            temporary.replace(target)
        except FileNotFoundError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _relative(self, path: str) -> str:
        return path.removeprefix("/").removeprefix(self.root.removeprefix("/")).removeprefix("/")


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

    def __init__(self, remote: Remote, held: lease.Lease) -> None:
        super().__init__(daemon=True, name="sending")
        self._remote, self._held = remote, held
        self._over = threading.Event()
        self._interrupts = threading.current_thread() is threading.main_thread()
        self.lost: StoreError | None = None

    def run(self) -> None:
        """Until the work is over, or the lease is another's: then the work ends, which nobody would see."""
        while not self._over.wait(min(_SECONDS_BETWEEN, self._held.expiry / 6)):
            try:
                self._held.renew()
                self._remote.send(self._held.check)
            except StoreError as error:
                self.lost = error
                if self._interrupts and not self._over.is_set():
                    _thread.interrupt_main(_STOP)
                return
            except Exception:
                # A store that does not answer for a while is asked again; the last try tells.
                continue

    def end(self) -> None:
        """Send the rest."""
        self._over.set()
        if self.is_alive():
            self.join()
        for left in reversed(range(_TRIES)):
            if self.lost is not None:
                return
            try:
                self._held.renew()
                self._remote.send(self._held.check)
                self._remote.remove_stale(self._held.check)
                return
            except StoreError as error:
                self.lost = error
            except Exception as error:
                if not left:
                    self.lost = StoreError(
                        f"{self._held.where}: {_line(error)}; everything lies in {self._remote.local}, and "
                        "the same command sends it"
                    )


def _opened(address: str) -> Remote:
    """A folder at an address that answers.

    Raises:
        UsageError: No file system has such addresses, or its package is not installed.
        StoreError: It does not answer.
    """
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    scheme = address.partition(":")[0]
    try:
        system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise UsageError(f"{address}: {_line(error)} (`pip install 'sonde[s3]'` for s3://)") from error
    except ValueError as error:
        raise UsageError(f"{address}: nothing is known of addresses that begin with {scheme}://") from error
    local = cache_folder("runs") / f"{slug(address)}-{hash_text(address)[:12]}"
    remote = Remote(system, str(root).rstrip("/"), local)
    with _said(address):
        _within(_ANSWER_SECONDS, lambda: system.exists(f"{remote.root}/{lease.NAME}"), address)
    local.mkdir(parents=True, exist_ok=True)
    return remote


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
def _said(address: str) -> Generator[None]:
    """Whatever a file system raises, as one line."""
    try:
        yield
    except SondeError:
        raise
    except Exception as error:
        raise StoreError(f"{address}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
