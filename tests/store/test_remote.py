"""Folders of runs at an address: in the memory, on a path, and on a real S3 server on the loopback."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sonde.base.errors import InputError, StoreError, UsageError
from sonde.store import address as addresses
from sonde.store import lock, remote
from sonde.store.address import parse_address
from sonde.store.checksums import verify_folder, write_with_receipt
from sonde.store.parts import PartStore
from sonde.store.remote import RemoteFolder, fetch_folder, sync_folder

from .conftest import computer, silent


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def opened(address: str) -> RemoteFolder:
    return remote._open_remote(address, writable=False)  # pyright: ignore[reportPrivateUsage]


def some(folder: Path) -> None:
    """Two tables, a page and a checkpoint."""
    store = PartStore(folder)
    store.put("observations/a.parquet", "k1", pl.DataFrame({"x": [1, 2]}), {"n": 2})
    store.put("observations/b.parquet", "k2", pl.DataFrame({"x": [3]}), {})
    write_with_receipt(folder, "report.html", "<p>é\x01</p>")
    (folder / "trained").mkdir()
    (folder / "trained" / "step.safetensors").write_bytes(b"weights")


@pytest.mark.parametrize("place", ["runs/a", "/tmp/s3", "C:/runs", "a:b", "x", "Runs:/a"])
def test_a_path_is_no_address(place: str) -> None:
    assert parse_address(place) == parse_address(Path(place)) == ""
    assert fetch_folder(place) == Path(place)


def test_another_computer_has_what_was_written(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_folder(Path(address), silent) as folder:
        some(folder)
    computer(2, tmp_path, monkeypatch)
    there = fetch_folder(address)
    assert there != folder
    assert files(there) == files(folder)
    assert PartStore(there).notes("observations/a.parquet", "k1") == {"n": 2}
    assert not opened(address).system.exists(f"{opened(address).root}/{lock.LEASE_NAME}")


def test_what_was_removed_is_removed_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_folder(Path(address), silent) as folder:
        some(folder)
    with sync_folder(Path(address), silent) as folder:
        PartStore(folder).remove_unplanned_parts("observations", {"observations/a.parquet"})
    computer(2, tmp_path, monkeypatch)
    assert files(fetch_folder(address)) == files(folder)


def test_what_is_finished_is_sent_while_the_work_goes_on(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_folder(Path(address), silent) as folder:
        some(folder)
        computer(2, tmp_path, monkeypatch)
        there: dict[str, bytes] = {}
        for _ in range(100):
            with contextlib.suppress(InputError):
                there = files(fetch_folder(address))
            if there == files(folder):
                break
            time.sleep(0.1)
        assert there == files(folder)


def test_what_was_sent_by_half_is_damaged_and_sent_again(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sync_folder(Path(address), silent) as folder:
        some(folder)
    held = opened(address)
    for name in ("observations/a.parquet", "trained/step.safetensors"):
        whole = held.system.cat_file(f"{held.root}/{name}")
        held.system.pipe_file(f"{held.root}/{name}", whole[: len(whole) // 2])
    held.system.pipe_file(f"{held.root}/receipts/observations/b.parquet.json", b'{"key": "k2", "con')
    for number in (1, 2):
        computer(number, tmp_path, monkeypatch)
        there = fetch_folder(address)
        assert verify_folder(there).damaged == (
            ("observations/a.parquet", "its content is not what was written"),
            ("observations/b.parquet", "its receipt cannot be read"),
        )
        # Without a receipt nothing says that it was damaged: as if it were not there.
        assert not (there / "trained" / "step.safetensors").exists()
        assert not list(there.rglob("*.tmp"))
    computer(1, tmp_path, monkeypatch)
    with sync_folder(Path(address), silent) as folder:
        assert verify_folder(folder).damaged == (("observations/b.parquet", "its receipt cannot be read"),)
        PartStore(folder).put("observations/b.parquet", "k2", pl.DataFrame({"x": [3]}), {})
    assert files(fetch_folder(address)) == files(folder)
    assert verify_folder(fetch_folder(address, reread=True)).damaged == ()


def test_a_second_writer_is_refused_by_the_name_of_the_first(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    with sync_folder(Path(address), silent) as folder:
        some(folder)
        computer(2, tmp_path, monkeypatch)
        with (
            pytest.raises(UsageError, match=r"is in use by process \d+ on '.+' since 20") as refused,
            sync_folder(Path(address), heard.append),
        ):
            pytest.fail("two writers")
    assert address in str(refused.value)
    assert len(heard) == 1
    assert "checking whether it still is" in heard[0]


def test_a_lease_that_nobody_renews_is_taken_over(address: str) -> None:
    held = opened(address)
    dead = lock.Lease(held.system, f"{held.root}/{lock.LEASE_NAME}", address, expiry=2.0)
    held.prepare_path(lock.LEASE_NAME)
    dead.take(silent)
    begin = time.monotonic()
    with sync_folder(Path(address), silent) as folder:
        assert time.monotonic() - begin >= 2.0
        some(folder)
        with pytest.raises(StoreError, match="has been taken over by process"):
            dead.renew()
    dead.release()


def test_of_several_that_take_over_one_writes(address: str) -> None:
    held = opened(address)
    held.prepare_path(lock.LEASE_NAME)
    lock.Lease(held.system, f"{held.root}/{lock.LEASE_NAME}", address, expiry=2.0).take(silent)
    outcomes: list[str] = []

    def taking() -> None:
        one = lock.Lease(held.system, f"{held.root}/{lock.LEASE_NAME}", address, expiry=2.0)
        try:
            one.take(silent)
            outcomes.append("taken")
        except (UsageError, StoreError):
            outcomes.append("refused")

    threads = [threading.Thread(target=taking) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 3 + ["taken"]


def test_a_writer_that_lost_its_lease_sends_nothing_more(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = opened(address)
    with pytest.raises(StoreError, match="has been taken over"), sync_folder(Path(address), silent) as folder:
        held.system.pipe_file(f"{held.root}/{lock.LEASE_NAME}", json.dumps({"token": "another"}).encode())
        some(folder)
    computer(2, tmp_path, monkeypatch)
    with pytest.raises(InputError, match="no run here"):
        fetch_folder(address)
    assert files(folder)


def test_a_writer_that_lost_its_lease_stops_working(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_SECONDS_BETWEEN", 0.1)
    held = opened(address)
    begin = time.monotonic()
    with pytest.raises(StoreError, match="has been taken over"), sync_folder(Path(address), silent):
        held.system.pipe_file(f"{held.root}/{lock.LEASE_NAME}", json.dumps({"token": "another"}).encode())
        for _ in range(600):
            time.sleep(0.1)
    assert time.monotonic() - begin < 30


def test_an_interrupted_run_sends_what_is_finished_and_stays_interrupted(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt), sync_folder(Path(address), silent) as folder:
        some(folder)
        raise KeyboardInterrupt
    computer(2, tmp_path, monkeypatch)
    assert files(fetch_folder(address)) == files(folder)


def test_a_store_that_fails_for_a_while_has_everything_in_the_end(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = iter([True] * 3)
    whole: Callable[..., None] = RemoteFolder._put  # pyright: ignore[reportPrivateUsage]

    def put(self: RemoteFolder, path: Path, relative: str) -> None:
        if next(failing, False):
            raise OSError("connection reset")
        whole(self, path, relative)

    monkeypatch.setattr(RemoteFolder, "_put", put)
    with sync_folder(Path(address), silent) as folder:
        some(folder)
        time.sleep(1.2)
    computer(2, tmp_path, monkeypatch)
    assert files(fetch_folder(address)) == files(folder)


def test_a_store_that_fails_to_the_end_is_one_line_and_loses_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*_: Any) -> None:
        raise OSError("connection reset\nby peer")

    with monkeypatch.context() as patch:
        patch.setattr(RemoteFolder, "_put", put)
        with (
            pytest.raises(StoreError, match=r"reset; all files are in .+ the same command sends it"),
            sync_folder(Path(address), silent) as folder,
        ):
            some(folder)
    kept = files(folder)
    with sync_folder(Path(address), silent):
        pass
    computer(2, tmp_path, monkeypatch)
    assert files(fetch_folder(address)) == kept


def test_an_address_leads_out_of_no_folder(address: str, tmp_path: Path) -> None:
    with sync_folder(Path(address), silent) as folder:
        some(folder)
    held = opened(address)
    listed = json.loads(held.system.cat_file(f"{held.root}/{remote.MANIFEST_NAME}"))["files"]
    odd = ("../../out", "/out", "a/../../out", "..", ".", "receipts", ".lease")
    listed |= dict.fromkeys(odd, listed["trained/step.safetensors"])
    held.system.pipe_file(f"{held.root}/{remote.MANIFEST_NAME}", remote.format_manifest(listed))
    before = {path for path in tmp_path.rglob("*") if "-read" not in path.as_posix()}
    there = fetch_folder(address)
    assert {path for path in tmp_path.rglob("*") if "-read" not in path.as_posix()} == before
    assert not [path for path in there.parent.rglob("*") if path.name == "out"]
    assert files(there) == files(folder)


def test_an_unknown_kind_of_address_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing is known of addresses that begin with sttp://"):
        fetch_folder("sttp://bucket/run")


def test_a_store_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    computer(1, tmp_path, monkeypatch)
    monkeypatch.setattr(addresses, "_ANSWER_SECONDS", 3.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-name-for-the-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-for-the-test")
    begin = time.monotonic()
    with pytest.raises(StoreError, match=r"^s3://absent/run") as refused:
        fetch_folder("s3://absent/run")
    assert time.monotonic() - begin < 30
    assert "a-key-for-the-test" not in str(refused.value)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_elsewhere(s3: str, tmp_path: Path) -> None:
    """The command itself, killed while it observes, and then given on a computer that has no copy."""

    def command(output: str, cache: str) -> subprocess.Popen[str]:
        words = ["run", "-m", "sonde/mini-decoder", "-l", "surprisal", "-c", "stdlib", "--no-report"]
        words += ["--limit", "400", "--json", "-o", output]
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                "from sonde.cli.commands import main; main()",
                *words,
                "--json",
                "-o",
                output,
            ],
            env={**os.environ, "SONDE_CACHE": str(tmp_path / cache), "SONDE_CACHE_SIZE": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    address = f"{s3}/killed"
    first = command(address, "one")
    held = opened(address)
    while first.poll() is None and not held.system.find(f"{held.root}/receipts/observations"):
        time.sleep(0.2)
    first.kill()
    first.wait()
    said, errors = command(address, "two").communicate(timeout=300)
    whole, _ = command(str(tmp_path / "whole"), "three").communicate(timeout=300)
    done, inputs = json.loads(said), json.loads(whole)["observed"]
    assert 0 < done["reused"] < inputs == done["reused"] + done["observed"], errors
    here, there = (
        pl.read_parquet(tmp_path / "whole" / "scores.parquet"),
        fetch_folder(address) / "scores.parquet",
    )
    assert here.equals(pl.read_parquet(there))
    for content in files(fetch_folder(address)).values():
        assert b"a-key-for-the-test" not in content
