"""Whole runs on a tiny decoder: what a kill, a flipped bit or a second process may change."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from transformers import LlamaModel

from sonde.base.progress import NullProgress
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment, observe, score
from sonde.experiments.observe import JobReport, observe_batch, time_job
from sonde.experiments.plan import JobBatch, ObserveJob
from sonde.experiments.run import run
from tests.slices import with_slices

from .conftest import save_decoder

SELECTION = Selection(limit=150, near_duplicates=False)


def experiment(decoder: Path, project: Path, **changes: object) -> Experiment:
    values = {"models": (str(decoder),), "corpora": (f"local:{project}",), "selection": SELECTION, **changes}
    return Experiment(**values)


def scores(folder: Path) -> pl.DataFrame:
    return with_slices(pl.read_parquet(folder / "scores.parquet"))


def observations(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "observations/**/*.parquet").sort("item_id", "position")


@pytest.fixture(scope="module")
def finished(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "finished"
    outcome = run(experiment(decoder, project), Execution(output=folder))
    assert (outcome.observed, outcome.reused) == (150, 0)
    return folder


def test_every_subword_is_scored_exactly_once(finished: Path) -> None:
    table = observations(finished)
    assert not table.select("item_id", "position").is_duplicated().any()
    items = pl.read_parquet(finished / "items.parquet")
    assert set(table["item_id"]) == set(items["item_id"])
    by_item = table.group_by("item_id").agg(pl.col("bytes").sum(), pl.col("position").max(), pl.len())
    joined = by_item.join(items.select("item_id", pl.col("bytes").alias("whole")), on="item_id")
    assert (joined["bytes"] == joined["whole"]).all()
    assert (joined["position"] + 1 == joined["len"]).all()


def test_a_second_run_recomputes_nothing(decoder: Path, project: Path, finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}
    outcome = run(experiment(decoder, project), Execution(output=finished))
    assert (outcome.observed, outcome.reused) == (0, 150)
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*.parquet")}


class Teller(NullProgress):
    def __init__(self, said: list[str]) -> None:
        self.said = said

    def note(self, line: str) -> None:
        self.said.append(line)


def test_before_the_first_job_it_is_said_how_long_all_take(
    decoder: Path, project: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    tried: list[ObserveJob] = []

    def trial(job: ObserveJob) -> tuple[tuple[str, ...], float]:
        item_ids, seconds = time_job(job)
        assert 4 <= len(item_ids) <= len(job.item_ids) and seconds > 0
        tried.append(job)
        return item_ids, 5.0 * len(item_ids)

    def job_done(pool: JobBatch, **details: Any) -> list[JobReport]:
        said.append("a job")
        return observe_batch(pool, **details)

    monkeypatch.setattr(observe, "WORTH_A_TRIAL", 100)
    monkeypatch.setattr(observe, "time_job", trial)
    monkeypatch.setattr(observe, "observe_batch", job_done)
    outcome = run(experiment(decoder, project), Execution(output=tmp_path), Teller(said))
    line, advice = [line for line in said if line.startswith("observing")]
    assert advice == "observing takes more than 10 min; shorter with a smaller --limit or fewer models"
    assert "observing 150 inputs with" in line and re.search(
        ": about 1[23] min at one input every [45].. s", line
    )
    assert said.index(line) < said.index("a job")
    items = pl.read_parquet(tmp_path / "items.parquet")
    lengths = items.filter(pl.col("item_id").is_in(tried[0].item_ids))["characters"]
    assert lengths.min() <= items["characters"].quantile(0.05)
    assert lengths.max() >= items["characters"].quantile(0.95)
    assert (outcome.observed, outcome.reused) == (150, 0)
    assert_frame_equal(scores(tmp_path), scores(finished))
    said.clear()
    run(experiment(decoder, project), Execution(output=tmp_path), Teller(said))
    assert len(tried) == 1 and not [line for line in said if line.startswith("observing")]


def test_a_damaged_part_is_computed_again_alone(
    decoder: Path, project: Path, finished: Path, tmp_path: Path
) -> None:
    run(experiment(decoder, project), Execution(output=tmp_path))
    victim = min(tmp_path.glob("observations/**/*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(content[:100] + b"\0" + content[101:])
    outcome = run(experiment(decoder, project), Execution(output=tmp_path))
    assert 0 < outcome.observed < 150
    assert outcome.damaged == [victim.relative_to(tmp_path).as_posix()]
    assert_frame_equal(scores(tmp_path), scores(finished))


def test_scores_of_another_schema_are_made_again_from_what_was_observed(
    decoder: Path, project: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(score, "SCHEMA_VERSION", score.SCHEMA_VERSION - 1)
        run(experiment(decoder, project), Execution(output=tmp_path))
    assert not scores(tmp_path)["fingerprint"].equals(scores(finished)["fingerprint"])
    outcome = run(experiment(decoder, project), Execution(output=tmp_path))
    assert (outcome.observed, outcome.reused) == (0, 150)
    assert_frame_equal(scores(tmp_path), scores(finished))


def test_a_smaller_run_grows_into_a_larger(
    decoder: Path, project: Path, finished: Path, tmp_path: Path
) -> None:
    small = Selection(limit=64, near_duplicates=False)
    run(experiment(decoder, project, selection=small), Execution(output=tmp_path))
    outcome = run(experiment(decoder, project), Execution(output=tmp_path))
    assert outcome.reused == 64
    assert_frame_equal(scores(tmp_path), scores(finished), check_row_order=False)


def test_stale_parts_do_not_linger(decoder: Path, project: Path, tmp_path: Path) -> None:
    run(experiment(decoder, project), Execution(output=tmp_path))
    small = Selection(limit=10, near_duplicates=False)
    run(experiment(decoder, project, selection=small), Execution(output=tmp_path))
    assert observations(tmp_path)["item_id"].n_unique() == 10


@pytest.mark.slow
def test_processes_and_kills_change_nothing(
    decoder: Path, project: Path, finished: Path, tmp_path: Path
) -> None:
    command = [
        *(sys.executable, "-c", "from sonde.cli.commands import main; main()", "run", "-m", str(decoder)),
        *("-c", f"local:{project}", "--limit", "150", "--option", "surprisal.min_count=20"),
        *("--workers", "2", "-o", str(tmp_path)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, start_new_session=True, env=environment, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if list(tmp_path.glob("observations/**/*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "scores.parquet").exists()
    parts = {path: path.stat().st_mtime_ns for path in tmp_path.glob("observations/**/*.parquet")}
    receipts = {path.name.removesuffix(".json") for path in tmp_path.glob("receipts/observations/**/*.json")}
    done = {path: stamp for path, stamp in parts.items() if path.name in receipts}
    settings = experiment(decoder, project, options={"surprisal": {"min_count": 20}})
    undisturbed = tmp_path / "undisturbed"
    run(settings, Execution(output=undisturbed))
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())
    # Processes share the cores, and torch adds up in another order with another number of threads.
    keys = ["dimensions", "metric", "task", "k", "weighting", "unit", "n", "n_clusters"]
    exact, close = scores(tmp_path), scores(undisturbed)
    assert_frame_equal(exact.select(keys), close.select(keys))
    assert_frame_equal(
        exact.select("value", "ci_low"), close.select("value", "ci_low"), abs_tol=1e-5, rel_tol=1e-5
    )


def test_long_items_pass_through_windows(decoder: Path, project: Path, tmp_path: Path) -> None:
    whole = Selection(limit=2, unit="file")
    run(experiment(decoder, project, selection=whole), Execution(output=tmp_path))
    table = observations(tmp_path)
    assert table.group_by("item_id").len()["len"].min() > 64
    assert table["context"].max() <= 64
    assert (table.filter(pl.col("position") >= 64)["context"] >= 31).all()


def test_an_input_that_the_model_fails_on_is_left_out_and_counted(
    decoder: Path, project: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = LlamaModel.forward

    def picky(self: LlamaModel, *args: Any, **kwargs: Any) -> Any:
        if (kwargs["input_ids"].sum(-1) % 31 == 0).any():
            raise IndexError("index out of range in self")
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(LlamaModel, "forward", picky)
    outcome = run(experiment(decoder, project), Execution(output=tmp_path))
    assert outcome.observed == 150 and not outcome.refused
    summary = json.loads((tmp_path / "run.json").read_text())
    left_out = summary["forwards"]["inputs that the model could not read"]
    assert 0 < left_out < 50
    assert summary["models"][0]["reading"]["unread"] == ["index out of range in self"]
    table, whole = observations(tmp_path), observations(finished)
    assert table["item_id"].n_unique() == 150 - left_out
    kept = whole.filter(pl.col("item_id").is_in(table["item_id"].implode()))
    assert_frame_equal(table, kept, abs_tol=1e-4)


def test_a_context_of_one_still_scores_every_subword(project: Path, tmp_path: Path) -> None:
    narrow = save_decoder(tmp_path / "narrow", context=1)
    small = Selection(limit=3, near_duplicates=False)
    run(experiment(narrow, project, selection=small), Execution(output=tmp_path / "run"))
    table = observations(tmp_path / "run")
    assert table["context"].max() <= 1
    assert table["nats"].is_finite().all()


def test_pads_are_counted_by_their_quirk_alone(project: Path, tmp_path: Path) -> None:
    decoder = save_decoder(tmp_path / "wide", context=512)
    small = Selection(limit=4, near_duplicates=False)
    quirky = experiment(decoder, project, selection=small, quirks=("perplexed.pads",))
    run(quirky, Execution(output=tmp_path / "quirky"))
    run(experiment(decoder, project, selection=small), Execution(output=tmp_path / "plain"))
    pads = observations(tmp_path / "quirky").filter(pl.col("kind") == "pad")
    assert pads.height > 0
    assert set(pads["subword"]) == {"<pad>"}
    assert set(pads["tag"]) == {""}
    rest = observations(tmp_path / "quirky").filter(pl.col("kind") != "pad")
    # A published rule has no numbers of code tokens or completions.
    added = ["units", "completion"]
    assert rest.select(pl.col(added).is_null().all()).row(0) == (True, True)
    assert_frame_equal(rest.drop(added), observations(tmp_path / "plain").drop(added), abs_tol=1e-5)
    means = {
        name: scores(tmp_path / name).filter((pl.col("slice") == "all") & (pl.col("metric") == "nats"))
        for name in ("quirky", "plain")
    }
    assert means["quirky"]["n"].item() == means["plain"]["n"].item() + pads.height
    assert means["quirky"]["value"].item() != pytest.approx(means["plain"]["value"].item(), rel=1e-3)
