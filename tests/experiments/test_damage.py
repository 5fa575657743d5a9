"""A flipped bit or a full disk: it is said, no false number is shown, and a second run mends it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from sonde.base.errors import SondeError, StoreError
from sonde.capture.caches import ResumedRows
from sonde.capture.runner import Runner
from sonde.capture.windows import Row
from sonde.cli.commands import app
from sonde.corpora import Selection
from sonde.experiments import Execution
from sonde.experiments.run import run
from sonde.report import write_report
from sonde.store.checksums import verify_folder
from tests.experiments.test_run import experiment, scores


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def kinds(root: Path) -> list[str]:
    """One file of each folder and ending."""
    found = verify_folder(root).intact
    return sorted({(one.partition("/")[0], Path(one).suffix): one for one in found}.values())


@pytest.fixture(scope="module")
def whole(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(experiment(decoder, project), Execution(output=folder))
    write_report(folder)
    return folder


def test_every_file_of_a_run_has_a_receipt(whole: Path) -> None:
    found = verify_folder(whole)
    assert found.damaged == found.unchecked == ()
    assert {"run.json", "items.parquet", "scores.parquet", "report.html"} <= set(found.intact)
    assert {one.partition("/")[0] for one in found.intact if "/" in one} == {
        "labels",
        "observations",
        "scores",
    }


@pytest.mark.slow
def test_a_flipped_bit_is_named_shown_nowhere_and_mended(
    whole: Path, decoder: Path, project: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    for name in kinds(whole):
        flip(folder / name)
        assert verify_folder(folder).damaged == ((name, "its content is not what was written"),)
        if name.endswith(".parquet"):
            with pytest.raises(StoreError, match=f"{Path(name).name}: its content is not what was written"):
                write_report(folder)
        else:
            # Of the page and of the summary a readable one is drawn anew; another is one line.
            with contextlib.suppress(SondeError):
                write_report(folder)
        run(experiment(decoder, project), Execution(output=folder))
        write_report(folder)
        assert verify_folder(folder).damaged == ()
        assert_frame_equal(scores(folder), scores(whole))


def test_the_command_names_what_is_missing_damaged_and_not_checked(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    runner = CliRunner()
    assert runner.invoke(app, ["verify", str(folder)]).exit_code == 0
    (folder / "items.parquet").unlink()
    (folder / "receipts" / "run.json.json").write_text("{", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    done = runner.invoke(app, ["verify", str(folder)])
    assert done.exit_code == 1
    assert "items.parquet: it is missing" in done.stdout
    assert "run.json: its receipt cannot be read" in done.stdout
    assert "not checked, because no checksum was written: 1 (notes.txt)" in done.stdout
    assert done.stdout.endswith("intact, 2 files damaged\n")


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_write_loses_nothing(
    decoder: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The quirk asks for the labels of a second task, which is a table more to be written.
    settings = experiment(
        decoder,
        project,
        selection=Selection(limit=12, near_duplicates=False),
        quirks=("codetokenizers.argument_names",),
    )
    whole = tmp_path / "whole"
    run(settings, Execution(output=whole))
    sync, free = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal free
        free -= 1
        if free < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    for writes in range(100):
        folder, free = tmp_path / str(writes), writes
        monkeypatch.setattr(os, "fsync", full)
        try:
            run(settings, Execution(output=folder))
        except StoreError as error:
            assert "No space left on device" in str(error)
        else:
            break
        finally:
            monkeypatch.setattr(os, "fsync", sync)
        assert not list(folder.rglob("*.tmp"))
        if (folder / "receipts").exists():
            assert verify_folder(folder).damaged == ()
        run(settings, Execution(output=folder))
        assert verify_folder(folder).damaged == ()
        assert_frame_equal(scores(folder), scores(whole))
    assert writes >= 15


@pytest.mark.slow
def test_batches_that_do_not_fit_into_memory_are_halved_and_it_is_said(
    whole: Path, decoder: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Runner._batch

    def scarce(runner: Runner, batch: Sequence[Row], resumed: ResumedRows | None) -> Any:
        if len(batch) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return read(runner, batch, resumed)

    monkeypatch.setattr(Runner, "_batch", scarce)
    run(experiment(decoder, project), Execution(output=tmp_path / "run"))
    assert_frame_equal(scores(tmp_path / "run"), scores(whole), abs_tol=1e-5)
    forwards = json.loads((tmp_path / "run" / "run.json").read_text())["forwards"]
    usual = json.loads((whole / "run.json").read_text())["forwards"]
    assert forwards.pop("batches halved for memory") > 0
    assert forwards == usual
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "batches halved for memory" in page
