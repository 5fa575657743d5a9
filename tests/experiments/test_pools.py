"""Jobs that an accelerator reads together: what is decided of them, and that each still writes its tables."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from sonde.capture.caches import ResumedRows
from sonde.capture.runner import Runner
from sonde.capture.windows import Row, batch_by_length
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, observe, plan
from sonde.experiments.plan import JobBatch, ObserveJob
from sonde.experiments.run import run
from sonde.models import ModelSpec
from tests.posing import posing

FILL = 0.85


def job(number: int, model: ModelSpec) -> ObserveJob:
    return ObserveJob(root="", model=model, corpus="c", language="python", item_ids=(str(number),), parts=())


def test_an_accelerator_reads_up_to_sixteen_jobs_together_and_a_processor_each_alone(decoder: Path) -> None:
    there = ModelSpec(name=str(decoder), device="cuda")
    jobs = [job(number, there) for number in range(33)]
    found = plan.batch_jobs(jobs)
    assert [len(pool.jobs) for pool in found] == [11, 11, 11]
    assert [one for pool in found for one in pool.jobs] == jobs
    here = [dataclasses.replace(one, model=dataclasses.replace(there, device="cpu")) for one in jobs]
    assert [pool.jobs for pool in plan.batch_jobs(here)] == [(one,) for one in here]


def test_of_a_large_model_fewer_jobs_are_read_together(
    decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelSpec(name=str(decoder), device="cuda")
    large = dataclasses.replace(plan.describe_model(model), layers=32, d_model=4096)
    monkeypatch.setattr(plan, "describe_model", mock.Mock(return_value=large))
    assert {len(pool.jobs) for pool in plan.batch_jobs([job(at, model) for at in range(16)])} == {4}


def test_processes_take_the_devices_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        _identity: tuple[int, ...] = (3,)

    model = ModelSpec(name="any", device="cuda")
    monkeypatch.setattr(plan.multiprocessing, "parent_process", lambda: object())
    monkeypatch.setattr(plan.multiprocessing, "current_process", Process)
    with posing(devices=2):
        assert plan.assign_device(model).device == "cuda:0"
        Process._identity = (4,)
        assert plan.assign_device(model).device == "cuda:1"
        named = dataclasses.replace(model, device="cuda:0")
        assert plan.assign_device(named) == named
    with posing():
        assert plan.assign_device(model) == model


def lengths_of_functions(count: int) -> list[int]:
    """Subwords of functions: some 100 in the middle, and up to a thousand."""
    draw = np.random.default_rng(0)
    return np.clip(np.exp(draw.normal(4.6, 0.9, count)), 5, 1024).astype(int).tolist()


@pytest.mark.parametrize("count", [64, 256, 1024, 2000])
def test_batches_hold_mostly_real_tokens(count: int) -> None:
    lengths = lengths_of_functions(count)
    batches = batch_by_length(lengths, [str(at) for at in range(count)], 32_768, FILL)
    for batch in batches:
        whole = len(batch) * max(lengths[row] for row in batch)
        assert whole <= 32_768
        assert sum(lengths[row] for row in batch) >= FILL * whole
    if count == 1024:
        assert np.mean([sum(lengths[row] for row in batch) for batch in batches]) > 5_000


def observed(project: Path, decoder: Path, output: Path, device: str) -> list[list[int]]:
    """Run surprisal, and give the lengths of the rows of each batch."""
    batches: list[list[int]] = []
    read = Runner._batch

    def seen(runner: Runner, batch: Sequence[Row], resumed: ResumedRows | None) -> object:
        batches.append([row.size for row in batch])
        return read(runner, batch, resumed)

    experiment = Experiment(
        models=(str(decoder),), corpora=(f"local:{project}",), selection=Selection(limit=330, per_cluster=0)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "_batch", seen)
        run(experiment, Execution(output=output, device=device))
    return batches


def tables(folder: Path) -> dict[str, pl.DataFrame]:
    return {path.name: pl.read_parquet(path) for path in sorted(folder.glob("observations/**/*.parquet"))}


@pytest.mark.slow
def test_pooled_jobs_write_what_each_would_and_the_same_when_one_is_done_again(
    project: Path, decoder: Path, tmp_path: Path
) -> None:
    observed(project, decoder, tmp_path / "cpu", "cpu")
    with posing():
        batches = observed(project, decoder, tmp_path / "cuda", "cuda:0")
        real = sum(map(sum, batches))
        assert real >= FILL * sum(len(batch) * max(batch) for batch in batches)
        usual, there = (tables(tmp_path / name) for name in ("cpu", "cuda"))
        assert len(there) == len(usual) > 3
        together = [pl.concat(found.values()).sort("item_id", "position") for found in (usual, there)]
        assert_frame_equal(*together, abs_tol=1e-5)
        lost = sorted(there)[0]
        (path,) = (tmp_path / "cuda").glob(f"observations/**/{lost}")
        path.unlink()
        again = observed(project, decoder, tmp_path / "cuda", "cuda:0")
        # The batches that hold something of it, as they were; and the same table to the last bit.
        assert 0 < len(again) <= len(batches)
        assert all(batch in batches for batch in again)
        assert_frame_equal(pl.read_parquet(path), there[lost], check_exact=True)


@pytest.mark.slow
def test_what_other_processes_prepared_is_what_is_prepared_here(
    project: Path, decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment(
        models=(str(decoder),), corpora=(f"local:{project}",), selection=Selection(limit=200, per_cluster=0)
    )
    with posing():
        run(experiment, Execution(output=tmp_path / "here", device="cuda:0"))
        # Only other processes can prepare now.
        monkeypatch.setattr(observe, "prepare_items", None)
        run(experiment, Execution(output=tmp_path / "ahead", device="cuda:0", light_workers=2))
    here, ahead = (tables(tmp_path / name) for name in ("here", "ahead"))
    assert here.keys() == ahead.keys()
    for name, table in here.items():
        assert_frame_equal(table, ahead[name], check_exact=True)


def test_models_of_one_tokenizer_share_what_is_prepared(decoder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(decoder, other)
    both = [
        JobBatch(root=job(0, spec).root, model=spec, jobs=(job(0, spec), job(1, spec)))
        for spec in (ModelSpec(name=str(path), device="cuda") for path in (decoder, other))
    ]
    ahead = observe.Prefetcher(both, 1)
    try:
        assert list(ahead._uses.values()) == [2, 2]
    finally:
        ahead.close()
