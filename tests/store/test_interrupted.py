"""What may go wrong between a machine and an address: kills, leases, clocks, and copies made by others."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from sonde.base.errors import StoreError, UsageError
from sonde.cli.commands import app
from sonde.store import lock, remote
from sonde.store.checksums import verify_folder, write_with_receipt
from sonde.store.parts import PartStore
from sonde.store.remote import RemoteFolder, fetch_folder, sync_folder

from .conftest import Place, computer, silent
from .test_commands import Made
from .test_commands import made as made

KILLED = """
import os, signal, sys
from pathlib import Path
import sonde.store.remote as folder
from sonde.cli import app

put, left = folder.RemoteFolder._put, [int(sys.argv[1])]

def killed_within(self, path, relative):
    left[0] -= 1
    if left[0] < 0:
        # Half of it is there when the process dies.
        half = Path(path).read_bytes()
        self.system.pipe_file(self.prepare_path(relative), half[: len(half) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, path, relative)

folder.RemoteFolder._put = killed_within
app(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "number"), [(0, 1), (1, 2), (4, 1), (9, 2)])
def test_a_run_that_was_killed_while_it_sent_goes_on_and_is_equal(
    sent: int, number: int, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed within the transfer of one file, then given again on the same computer or on another one."""
    address = f"file://{tmp_path / 'store'}"
    computer(1, tmp_path, monkeypatch)
    words = [*made.run, "-o", address]
    code = subprocess.run([sys.executable, "-c", KILLED, str(sent), *words], capture_output=True, check=False)
    assert code.returncode == -signal.SIGKILL, code.stderr
    before = Place(address).content()
    assert lock.LEASE_NAME in before
    assert remote.MANIFEST_NAME in before
    monkeypatch.setattr(lock, "EXPIRY_SECONDS", 2.0)
    computer(number, tmp_path, monkeypatch)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.exception
    computer(3, tmp_path, monkeypatch)
    there = fetch_folder(address, reread=True)
    found = verify_folder(there)
    assert found.damaged == ()
    assert set(found.intact) == set(verify_folder(made.whole).intact)
    assert_frame_equal(
        pl.read_parquet(there / "scores.parquet"), pl.read_parquet(made.whole / "scores.parquet")
    )
    listed = json.loads(Place(address).content()[remote.MANIFEST_NAME])["files"]
    assert {*listed, remote.MANIFEST_NAME} == set(Place(address).content())


@pytest.mark.slow
def test_a_fetch_that_fails_removes_nothing(
    address: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_folder(Path(address), silent) as folder:
        shutil.copytree(made.whole, folder, dirs_exist_ok=True)
    before = Place(address).content()
    computer(2, tmp_path, monkeypatch)

    def bring(*_: object, **__: object) -> None:
        raise OSError("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "_bring", bring)
        for outputs in (None, ["report.html"]):
            with (
                pytest.raises(StoreError, match="connection reset"),
                sync_folder(Path(address), silent, outputs=outputs),
            ):
                pytest.fail("nothing was fetched")
    assert Place(address).content() == before


@pytest.mark.parametrize("ends_well", [True, False])
def test_only_work_that_ends_well_removes(address: str, ends_well: bool) -> None:
    with sync_folder(Path(address), silent) as folder:
        PartStore(folder).put("observations/a.parquet", "k", pl.DataFrame({"x": [1]}), {})
        PartStore(folder).put("observations/b.parquet", "k", pl.DataFrame({"x": [2]}), {})
    try:
        with sync_folder(Path(address), silent) as folder:
            PartStore(folder).remove_unplanned_parts("observations", {"observations/a.parquet"})
            if not ends_well:
                raise ValueError("something else")
    except ValueError:
        assert not ends_well
    assert ("observations/b.parquet" in Place(address).content()) == (not ends_well)
    assert verify_folder(fetch_folder(address)).damaged == ()


def test_what_somebody_puts_into_the_way_is_not_replaced(address: str) -> None:
    place = Place(address)
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
    place.put("report.html", b"theirs")
    with (
        pytest.raises(StoreError, match=r"/report\.html is there and not part of this run; move it"),
        sync_folder(Path(address), silent) as folder,
    ):
        write_with_receipt(folder, "report.html", "ours")
    assert place.content()["report.html"] == b"theirs"


def test_who_reads_while_another_sends_is_told_so(address: str) -> None:
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
        sent = time.monotonic() + 30
        while "receipts/run.json.json" not in Place(address).content() and time.monotonic() < sent:
            time.sleep(0.1)
        Place(address).put("run.json", b"{")
        with pytest.raises(StoreError, match=r"run\.json is being written by process \d+ on"):
            fetch_folder(address)


def test_a_reader_on_the_machine_of_a_run_leaves_its_copy_alone(address: str) -> None:
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", '{"seed": 1}')
        write_with_receipt(folder, "new.json", "1")
        before = {path: path.read_bytes() for path in folder.rglob("[a-z]*.json")}
        fetch_folder(address)
        assert {path: path.read_bytes() for path in folder.rglob("[a-z]*.json")} == before
        assert len(before) == 4
    assert fetch_folder(address).joinpath("new.json").read_text(encoding="utf-8") == "1"


def test_a_clock_that_was_set_back_changes_no_lease(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(address)
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")

        class Earlier(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
                return datetime.datetime.now(tz).replace(year=2000)

        monkeypatch.setattr(lock, "datetime", SimpleNamespace(datetime=Earlier, UTC=datetime.UTC))
        with pytest.raises(UsageError, match="is in use by process"), sync_folder(Path(address), silent):
            pytest.fail("two writers")
    dead = lock.Lease(place.system, f"{place.root}/{lock.LEASE_NAME}", address, expiry=2.0)
    dead.take(silent)
    begin = time.monotonic()
    with sync_folder(Path(address), silent) as folder:
        assert time.monotonic() - begin >= 2.0
        write_with_receipt(folder, "run.json", '{"later": 1}')
        # What is newer looks older.
        os.utime(folder / "run.json", (0, 0))
    assert json.loads(place.content()["run.json"]) == {"later": 1}
    assert fetch_folder(address).joinpath("run.json").read_bytes() == place.content()["run.json"]


def test_a_file_named_like_a_lease_is_not_removed(address: str) -> None:
    place = Place(address)
    place.put(lock.LEASE_NAME, b"mine")
    with (
        pytest.raises(UsageError, match="is not a run; name an empty place"),
        sync_folder(Path(address), silent),
    ):
        pytest.fail("taken")
    assert place.content() == {lock.LEASE_NAME: b"mine"}


@pytest.mark.parametrize(
    "state", ["", "[]", "{}", '{"address": 3}', '{"address": "ADDRESS", "same": {"run.json": [1]}}']
)
def test_a_copy_of_another_version_is_fetched_anew(address: str, state: str) -> None:
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
    reading = fetch_folder(address)
    for copy in (folder, reading):
        (copy / ".address.json").write_text(state.replace("ADDRESS", address), encoding="utf-8")
        (copy / "run.json").write_text("another", encoding="utf-8")
    assert fetch_folder(address).joinpath("run.json").read_text(encoding="utf-8") == "{}"
    with sync_folder(Path(address), silent) as folder:
        assert folder.joinpath("run.json").read_text(encoding="utf-8") == "{}"


def test_a_run_that_another_program_copied_there_goes_on(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a manifest its receipts say what is sonde's."""
    with sync_folder(Path(address), silent) as folder:
        PartStore(folder).put("observations/a.parquet", "k", pl.DataFrame({"x": [1]}), {})
    place = Place(address)
    listed = json.loads(place.content()[remote.MANIFEST_NAME])["files"]
    place.system.rm_file(f"{place.root}/{remote.MANIFEST_NAME}")
    place.put("mine.txt", b"mine")
    before = place.content()
    computer(2, tmp_path, monkeypatch)
    assert verify_folder(fetch_folder(address)).intact == ("observations/a.parquet",)
    assert place.content() == before
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
    after = place.content()
    assert after["mine.txt"] == b"mine"
    assert set(json.loads(after[remote.MANIFEST_NAME])["files"]) == {
        *listed,
        "run.json",
        "receipts/run.json.json",
    }


def test_a_damaged_manifest_is_named_and_made_anew(address: str) -> None:
    place = Place(address)
    with sync_folder(Path(address), silent) as folder:
        write_with_receipt(folder, "run.json", "{}")
    place.flip(remote.MANIFEST_NAME)
    with pytest.raises(StoreError, match=r"/\.sonde-manifest\.json: its content is not what was written"):
        fetch_folder(address)
    with sync_folder(Path(address), silent):
        pass
    assert verify_folder(fetch_folder(address)).intact == ("run.json",)
