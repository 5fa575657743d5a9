"""What one run has observed, another run on this machine takes: the same scores, and nothing read again."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import polars as pl
import pytest

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.progress import Outcome
from sonde.experiments.run import run
from sonde.report import write_report

from .conftest import save_decoder

LIMITS = (64, 128)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SONDE_CACHE_SIZE", "1")
    return tmp_path / "cache" / "observations"


def asked(decoder: Path, project: Path, folder: Path, **changes: object) -> Outcome:
    selection = Selection(limit=int(str(changes.pop("limit", LIMITS[0]))), near_duplicates=False)
    experiment = Experiment(models=(str(decoder),), corpora=(f"local:{project}",), selection=selection)
    return run(dataclasses.replace(experiment, **changes), Execution(output=folder))  # type: ignore[arg-type]


def scores(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "scores.parquet")


def test_the_same_in_another_folder_is_read_once(decoder: Path, project: Path, tmp_path: Path) -> None:
    first = asked(decoder, project, tmp_path / "first")
    second = asked(decoder, project, tmp_path / "second")
    assert (first.observed, first.cached) == (64, 0)
    assert (second.observed, second.reused, second.cached) == (0, 64, 64)
    assert scores(tmp_path / "second").equals(scores(tmp_path / "first"))
    summary = json.loads((tmp_path / "second" / "run.json").read_text())
    assert summary["forwards"] == {"inputs from the cache": 64}
    assert summary["alignment"] == json.loads((tmp_path / "first" / "run.json").read_text())["alignment"]


def test_a_larger_run_reads_what_is_new(decoder: Path, project: Path, tmp_path: Path) -> None:
    asked(decoder, project, tmp_path / "first")
    second = asked(decoder, project, tmp_path / "second", limit=LIMITS[1])
    assert (second.observed, second.cached) == (64, 64)


def test_whatever_can_change_a_number_is_read_anew(decoder: Path, project: Path, tmp_path: Path) -> None:
    asked(decoder, project, tmp_path / "first")
    other = save_decoder(tmp_path / "other", context=48)
    assert asked(other, project, tmp_path / "weights").cached == 0
    assert asked(decoder, project, tmp_path / "start", options={"surprisal": {"bos": "none"}}).cached == 0
    # What scores alone depend on is no other observation.
    assert asked(decoder, project, tmp_path / "again").cached == 64


def test_a_damaged_cache_is_read_anew(decoder: Path, project: Path, tmp_path: Path, cache: Path) -> None:
    asked(decoder, project, tmp_path / "first")
    for table in cache.rglob("*.parquet"):
        table.write_bytes(b"PAR1")
    second = asked(decoder, project, tmp_path / "second")
    assert (second.observed, second.cached) == (64, 0)
    assert scores(tmp_path / "second").height == scores(tmp_path / "first").height


def of_another_shape() -> bytes:
    held = io.BytesIO()
    pl.DataFrame({"name": ["x"], "number": [1]}).write_parquet(held)
    return held.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\0" * 100, of_another_shape()], ids=range(5))
def test_a_cache_that_another_version_left_is_as_none(
    content: bytes, decoder: Path, project: Path, cache: Path, tmp_path: Path
) -> None:
    """Every file of it, of whatever kind: a run ends, and with the same scores and page."""
    asked(decoder, project, tmp_path / "first")
    write_report(tmp_path / "first")
    files = [path for path in cache.parent.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len({path.relative_to(cache.parent).parts[0] for path in files}) >= 3
    for path in files:
        # Tables are shared with the run by a link: what is left here is a file of its own.
        path.unlink()
        path.write_bytes(content)
    second = asked(decoder, project, tmp_path / "second")
    write_report(tmp_path / "second")
    assert (second.observed, second.cached) == (64, 0)
    assert scores(tmp_path / "second").equals(scores(tmp_path / "first"))
