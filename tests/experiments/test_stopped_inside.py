"""A run that is stopped inside a job of many inputs: what it had read is kept, and nothing differs after."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sonde.base.progress import Advance, NullProgress
from sonde.capture.runner import Runner
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, observe
from sonde.experiments.run import run
from sonde.store.parts import UNFINISHED_FOLDER
from tests.faults.kills import code_in

INPUTS = 40

LENSES: dict[str, dict[str, Any]] = {
    "surprisal": {},
    "attention": {},
    "probe": {"tasks": ("len",), "options": {"probe": {"controls": False, "folds": 2, "probe": "linear"}}},
    "cloze": {"options": {"cloze": {"candidates": 4, "frames": 0, "per_library": 2}}},
}
"""What a lens needs to take seconds."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    code_in(folder)
    return folder / "code"


class Recorder(NullProgress):
    """Keeps what each stage said: its title and total, and each step with the time left."""

    def __init__(self) -> None:
        self.totals: dict[str, int | None] = {}
        self.steps: dict[str, list[tuple[int, float | None]]] = {}

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        self.totals[title] = total
        steps = self.steps.setdefault(title, [])

        def advance(count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
            steps.append((count, remaining))

        yield advance


def experiment(code: Path, lens: str) -> Experiment:
    return Experiment(
        models=("sonde/mini-decoder",),
        corpora=(f"local:{code}",),
        lenses=(lens,),
        selection=Selection(limit=INPUTS),
        include_seen=True,
        **LENSES[lens],
    )


def stop_after(batches: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a run end as by Ctrl-C when it has read some batches; return what counts the batches read."""
    read = Runner._read
    count = [0]

    def read_or_stop(runner: Runner, batch: Sequence[Any]) -> None:
        if count[0] == batches:
            raise KeyboardInterrupt
        count[0] += 1
        read(runner, batch)

    monkeypatch.setattr(Runner, "_read", read_or_stop)
    return count


def tables(folder: Path) -> dict[str, pl.DataFrame]:
    paths = sorted(folder.glob("observations/**/*.parquet"))
    return {path.relative_to(folder).as_posix(): pl.read_parquet(path) for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize("killed", [False, True])
def test_what_was_read_inside_a_job_is_kept(
    lens: str, killed: bool, code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_CACHE_SIZE", "0")
    settings = experiment(code, lens)
    with monkeypatch.context() as patch:
        batches = stop_after(-1, patch)
        run(settings, Execution(output=tmp_path / "undisturbed", batch_tokens=512))
        total = batches[0]
    assert total > 2
    with monkeypatch.context() as patch:
        if killed:
            # Nothing is written when the process ends, only now and then before.
            patch.setattr(observe, "_SECONDS_BETWEEN_PIECES", 0.0)
        stop_after(total // 2, patch)
        with pytest.raises(KeyboardInterrupt):
            run(settings, Execution(output=tmp_path / "stopped", batch_tokens=512))
    assert list((tmp_path / "stopped" / UNFINISHED_FOLDER).rglob("*.parquet"))
    with monkeypatch.context() as patch:
        batches = stop_after(-1, patch)
        outcome = run(settings, Execution(output=tmp_path / "stopped", batch_tokens=512))
    # A batch that holds an input of which more is to be read is read again.
    assert batches[0] < total
    assert outcome.reused > 0 and outcome.observed > 0
    expected, found = tables(tmp_path / "undisturbed"), tables(tmp_path / "stopped")
    assert expected.keys() == found.keys()
    for name, table in expected.items():
        assert_frame_equal(found[name], table, check_row_order=lens != "cloze", check_exact=True)
    scores = [pl.read_parquet(tmp_path / name / "scores.parquet") for name in ("undisturbed", "stopped")]
    assert_frame_equal(*scores, check_exact=True)
    assert not (tmp_path / "stopped" / UNFINISHED_FOLDER).exists()
    assert not (tmp_path / "stopped" / "receipts" / UNFINISHED_FOLDER).exists()


@pytest.mark.slow
def test_a_damaged_piece_is_read_again(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONDE_CACHE_SIZE", "0")
    settings = experiment(code, "surprisal")
    run(settings, Execution(output=tmp_path / "undisturbed", batch_tokens=512))
    with monkeypatch.context() as patch:
        stop_after(4, patch)
        with pytest.raises(KeyboardInterrupt):
            run(settings, Execution(output=tmp_path / "stopped", batch_tokens=512))
    piece, *_ = sorted((tmp_path / "stopped" / UNFINISHED_FOLDER).rglob("*.parquet"))
    piece.write_bytes(piece.read_bytes()[:100])
    outcome = run(settings, Execution(output=tmp_path / "stopped", batch_tokens=512))
    assert (outcome.observed, outcome.reused, outcome.damaged) == (INPUTS, 0, [])
    for name, table in tables(tmp_path / "undisturbed").items():
        assert_frame_equal(tables(tmp_path / "stopped")[name], table, check_exact=True)


def test_progress_counts_inputs_and_says_the_time_left(code: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    run(experiment(code, "surprisal"), Execution(output=tmp_path, batch_tokens=512), recorder)
    assert recorder.totals["observing"] == INPUTS
    steps = recorder.steps["observing"]
    assert sum(count for count, _ in steps) == INPUTS
    assert sum(count > 0 for count, _ in steps) > 10, "a job of 40 inputs is not one step"
    assert any(remaining is not None for _, remaining in steps)
    for title in ("labelling", "scoring"):
        assert sum(count for count, _ in recorder.steps[title]) == recorder.totals[title], title


@pytest.mark.slow
def test_pieces_that_overlap_after_damage_count_once(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_CACHE_SIZE", "0")
    monkeypatch.setattr(observe, "_SECONDS_BETWEEN_PIECES", 0.0)
    settings = experiment(code, "surprisal")
    execution = Execution(output=tmp_path / "stopped", batch_tokens=512)
    run(settings, Execution(output=tmp_path / "undisturbed", batch_tokens=512))
    for batches in (6, 3):
        with monkeypatch.context() as patch:
            stop_after(batches, patch)
            with pytest.raises(KeyboardInterrupt):
                run(settings, execution)
        first, *others = sorted((tmp_path / "stopped" / UNFINISHED_FOLDER).rglob("*.parquet"))
        assert others
        if batches == 6:
            first.write_bytes(b"")
    run(settings, execution)
    for name, table in tables(tmp_path / "undisturbed").items():
        assert_frame_equal(tables(tmp_path / "stopped")[name], table, check_exact=True)


@pytest.mark.slow
def test_a_run_goes_on_where_only_controls_of_its_first_model_are_left(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_CACHE_SIZE", "0")
    first = experiment(code, "probe")
    options = {"probe": {**LENSES["probe"]["options"]["probe"], "controls": True}}
    settings = dataclasses.replace(first, models=(*first.models, "sonde/mini-encoder"), options=options)
    outcome = run(settings, Execution(output=tmp_path))
    scores = pl.read_parquet(tmp_path / "scores.parquet")
    lost = [
        job
        for job in outcome.jobs
        if job.model.reinitialise is not None or job.model.name not in first.models
    ]
    assert 0 < len(lost) < len(outcome.jobs)
    for part in [part for job in lost for part in job.parts]:
        (tmp_path / part.relative).unlink()
    again = run(settings, Execution(output=tmp_path))
    assert again.observed == sum(len(job.item_ids) for job in lost)
    assert_frame_equal(pl.read_parquet(tmp_path / "scores.parquet"), scores, check_exact=True)
