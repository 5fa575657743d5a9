"""Runs whose jobs are done in other processes that share nothing with this one but the folder of the run."""

import html
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.cli.commands import app
from sonde.corpora import BuildOptions, Selection, SkipCounter, build_corpus, read_files, read_manifest
from sonde.corpora.engine.dedup import METHODS
from sonde.executors import EXECUTORS
from sonde.experiments import Execution, Experiment, datasets
from sonde.experiments.plan import Part
from sonde.experiments.progress import Outcome
from sonde.experiments.run import merge, run
from sonde.experiments.shards import read_shard_record
from sonde.models import ModelSpec, point_to_folder, resolve_revision
from sonde.results.scores import read_scores
from sonde.store.checksums import receipt_path
from sonde.tasks import ParallelMap, index_imports, repositories
from sonde.tasks.engine.sampling import _pool

pytestmark = pytest.mark.slow

MODEL, CODE = "./model", "local:code"
"""Both relative: where a worker's folder is another one, they lead nowhere."""

MANY = (
    "argparse",
    "ast",
    "doctest",
    "ftplib",
    "imaplib",
    "smtplib",
    "tarfile",
    "turtle",
    "typing",
    "zipfile",
)
"""Modules with functions for ten jobs."""

SECONDS_OF_AN_ORPHAN = 3.0
"""In which the processes of a cluster whose driver was killed have ended."""

LENSES = ("surprisal", "attention", "probe", "cloze", "finetune")


def experiment(*lenses: str) -> Experiment:
    return Experiment(
        models=(MODEL,),
        lenses=lenses,
        tasks=("len", "jft", "api_cloze", "wrong_operator") if len(lenses) > 1 else (),
        corpora=(CODE,),
        selection=Selection(limit=30),
        options={
            one: options
            for one, options in {
                "cloze": {"candidates": 3, "scope": "all", "templates": "import"},
                "finetune": {"epochs": 1, "length": 64, "cut": "keep", "methods": "pretrained,bag_of_tokens"},
            }.items()
            if one in lenses
        },
    )


@pytest.fixture(scope="module")
def here(decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a model and a few modules of the standard library, in which the commands are given."""
    folder = tmp_path_factory.mktemp("here")
    shutil.copytree(decoder, folder / "model")
    for module in (textwrap, inspect, json, html, re):
        (folder / "code" / module.__name__).mkdir(parents=True)
        (folder / "code" / module.__name__ / "__init__.py").write_text(inspect.getsource(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def undisturbed(here: Path) -> Outcome:
    """The run of all lenses in one process."""
    return run(experiment(*LENSES), Execution(output=here / "local"))


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[None]:
    """A cluster whose workers have another working folder, another home and none of the files from here."""
    ray = pytest.importorskip("ray")
    away = tmp_path / "away"
    (away / "home").mkdir(parents=True)
    (away / "code").mkdir()
    (away / "code" / "other.py").write_text("def other():\n    return 1\n")
    ray.shutdown()
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=100_000_000,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={
            "working_dir": str(away),
            "env_vars": {"HOME": str(away / "home"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        },
    )
    yield
    ray.shutdown()


@pytest.fixture
def spread_out(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """However little there is to read, it is spread; names of the functions that each executor is given."""
    monkeypatch.setattr(ParallelMap.__init__, "__defaults__", ("local", 1, 1))
    monkeypatch.setattr(datasets, "_WORTH_A_PROCESS", 1)
    _pool.cache_clear()
    seen: dict[str, set[str]] = {"local": set(), "ray": set()}
    for name, functions in seen.items():
        executor = EXECUTORS.load(name)
        monkeypatch.setattr(executor, "map", observed(executor.map, functions))
    return seen


def observed(real: Callable[..., Iterator[Any]], functions: set[str]) -> Callable[..., Iterator[Any]]:
    def mapped(function: Callable[..., Any], jobs: Iterable[Any], *, workers: int) -> Iterator[Any]:
        # What this process observes comes with what it tells its progress to.
        functions.add(getattr(function, "func", function).__name__)
        return real(function, jobs, workers=workers)

    return mapped


@pytest.mark.usefixtures("strangers")
def test_workers_with_other_files_give_the_scores_of_this_machine(
    undisturbed: Outcome, spread_out: dict[str, set[str]]
) -> None:
    execution = Execution(output=Path("ray"), executor="ray", workers=2, light_workers=2)
    done = run(experiment(*LENSES), execution)
    labelling = {"_label", "_measure"}
    assert spread_out["ray"] >= labelling | {"_pick", "observe_batch", "train_job", "_score_job"}
    assert not spread_out["local"] & labelling
    ours, theirs = (read_scores(outcome.directory.scores) for outcome in (undisturbed, done))
    assert set(ours["lens"]) == set(LENSES)
    assert ours.equals(theirs)
    assert [job.parts for job in undisturbed.jobs] == [job.parts for job in done.jobs]
    for table in undisturbed.directory.root.rglob("*.parquet"):
        other = done.directory.root / table.relative_to(undisturbed.directory.root)
        assert pl.read_parquet(table).equals(pl.read_parquet(other)), table
    assert [copy.name for copy in Path("ray/models").iterdir()] == [resolve_revision(ModelSpec(name=MODEL))]
    assert not undisturbed.directory.models.exists()
    assert not list(Path("ray").glob(".seen-*"))


@pytest.mark.usefixtures("here")
def test_two_processes_label_and_draw_as_one_does(
    undisturbed: Outcome, spread_out: dict[str, set[str]], tmp_path: Path
) -> None:
    wanted = replace(experiment("surprisal", "probe"), tasks=("len", "jft"))
    done = run(wanted, Execution(output=tmp_path, workers=1, light_workers=2))
    assert spread_out["local"] >= {"_label", "_pick", "_measure"}
    tables = list(done.directory.root.glob("labels/**/*.parquet"))
    assert {table.parent.name for table in tables} >= {"task=call_origin", "task=jft"}
    for table in tables:
        other = undisturbed.directory.root / table.relative_to(done.directory.root)
        assert pl.read_parquet(table).equals(pl.read_parquet(other)), table


ASKED = {
    "call_origin": ("_find_functions", "_label"),
    "idn": ("_find_functions", "_pick"),
    "variable_misuse": ("_make",),
    "jft": ("_examples",),
    "program_tokens": ("_label_chunk",),
    "syntax_relations": ("_label",),
}
"""Tasks that label and draw each in its own way, with what the executor is given."""


@pytest.mark.usefixtures("here", "strangers")
def test_labels_and_data_sets_are_the_same_wherever_they_are_made(
    spread_out: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task, functions in ASKED.items():
        asked: dict[str, Any] = {"limit": 200, "raw": task in ("call_origin", "program_tokens")}
        one = sonde.label(task, CODE, **asked)
        spread_out["local"].clear()
        spread_out["ray"].clear()
        for executor in ("local", "ray"):
            # Import statements that were found before are not looked for again.
            monkeypatch.setenv("SONDE_CACHE", str(tmp_path / task / executor))
            there = sonde.label(task, CODE, **asked, executor=executor, workers=2)
            assert there.equals(one) and len(one) > 20, (task, executor)
        assert spread_out["ray"] >= set(functions), task
    files = list(read_files(CODE, ("python",), SkipCounter()))
    for around in (index_imports, repositories):
        there = around(files, parallel=ParallelMap("ray", workers=2, worth=1))
        assert there == around(files) and set(there) == {"code"}
    assert spread_out["ray"] >= {"_imports", "_definitions"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("here", "strangers")
def test_near_duplicates_are_the_same_wherever_they_are_looked_for(method: str, tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    code = tmp_path / "code"
    for number in range(250):
        (code / f"p{number}").mkdir(parents=True)
        words = " + ".join(f"word_{number // 3}_{at}" for at in range(30))
        (code / f"p{number}" / "m.py").write_text(f"def f{number % 3}(a):\n    return {words}\n")
    wanted = BuildOptions(corpora=(f"local:{code}",), method=method)
    told: list[Any] = []
    for executor, workers in (("local", 1), ("local", 2), ("ray", 2)):
        folder = tmp_path / f"{executor}{workers}"
        build_corpus(wanted, folder, executor=executor, workers=workers, report=lambda line: None)
        told.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert told[0] == told[1] == told[2]
    (corpus,) = read_manifest(tmp_path / "ray2").head["corpora"]
    assert corpus["left_out"]["near duplicate"] > 100


@pytest.fixture(scope="module")
def shards(here: Path) -> list[Path]:
    """Two shares of the run of all lenses."""
    folders = [here / f"shard-{number}" for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        run(experiment(*LENSES), Execution(output=folder, shard=f"{number}/2"))
    return folders


def test_shards_merged_have_the_scores_of_one_run(
    undisturbed: Outcome, shards: list[Path], tmp_path: Path
) -> None:
    merged = merge(shards[::-1], tmp_path / "merged")
    ours, theirs = (read_scores(outcome.directory.scores) for outcome in (undisturbed, merged))
    assert ours.equals(theirs)
    assert merged.observed == merged.trained == 0
    each = [{relative for relative, _ in read_shard_record(folder).parts} for folder in shards]
    assert all(each) and not each[0] & each[1]
    assert each[0] | each[1] == {part.relative for part in parts_of(undisturbed)}
    assert {one.name for one in (tmp_path / "merged/trained").iterdir()} == {
        one.name for one in undisturbed.directory.trained.iterdir()
    }
    assert not any((folder / "scores.parquet").exists() for folder in shards)


def parts_of(outcome: Outcome) -> Iterator[Part]:
    """What the first stage of a run wrote."""
    jobs = [*outcome.jobs, *outcome.trainings]
    return (part for job in jobs for part in job.parts if not part.lens.stage)


def test_a_shard_that_is_missing_or_given_twice_is_named(shards: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"shard 2/2 is missing; run it"):
        merge(shards[:1], tmp_path / "merged")
    with pytest.raises(UsageError, match=r"shard-1' is given twice; name each shard once"):
        merge([shards[0], *shards], tmp_path / "merged")
    shutil.copytree(shards[0], tmp_path / "copy")
    with pytest.raises(UsageError, match=r"shard 1/2 is given twice: .*shard-1 and .*copy"):
        merge([*shards, tmp_path / "copy"], tmp_path / "merged")
    with pytest.raises(InputError, match=r"no shard here \(shard\.json is missing\)"):
        merge([shards[0], tmp_path], tmp_path / "merged")


def test_what_does_not_belong_together_is_not_merged(shards: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    run(experiment("surprisal"), Execution(output=other, shard="2/2"))
    with pytest.raises(UsageError, match=r"other \(shard 2/2\) was run with other arguments than"):
        merge([shards[0], other], tmp_path / "merged")
    with pytest.raises(UsageError, match=r"has shard 1/2; give shard 2/2 another one with -o"):
        run(experiment(*LENSES), Execution(output=shards[0], shard="2/2"))


def test_a_damaged_table_of_a_shard_is_named_before_anything_is_merged(
    shards: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(shards[1], folder)
    (folder / read_shard_record(folder).parts[0][0]).write_bytes(b"")
    with pytest.raises(InputError, match=r"1 of the \d+ tables of shard 2/2 are missing or damaged"):
        merge([shards[0], folder], tmp_path / "merged")
    assert not (tmp_path / "merged/observations").exists()


def test_shards_are_not_scored_where_something_else_would_be_observed(tmp_path: Path, here: Path) -> None:
    wanted = experiment("surprisal")
    for number in (1, 2):
        run(wanted, Execution(output=tmp_path / f"{number}", shard=f"{number}/2"))
    config = here / "model/config.json"
    before = config.read_text()
    config.write_text(before + " ")
    try:
        with pytest.raises(InputError, match="this machine would not reproduce the shards"):
            merge([tmp_path / "1", tmp_path / "2"], tmp_path / "merged")
    finally:
        config.write_text(before)


@pytest.mark.usefixtures("here")
def test_shards_on_the_command_line_say_what_they_did_and_what_comes_next(tmp_path: Path) -> None:
    runner = CliRunner()
    asked = ["run", "-m", MODEL, "-c", CODE, "-l", "surprisal", "--limit", "80"]
    folders = [str(tmp_path / "1"), str(tmp_path / "2")]
    for number, folder in enumerate(folders, 1):
        done = runner.invoke(app, [*asked, "--shard", f"{number}/2", "-o", folder])
        assert f"shard {number}/2: {(64, 16)[number - 1]} items observed" in done.stdout, done.output
        assert f"sonde merge DIR... -o RUN, with {folder} among the folders" in done.stdout
    merged = runner.invoke(app, ["merge", *folders, "-o", str(tmp_path / "run"), "--json"])
    told = json.loads(merged.stdout)
    assert (told["observed"], told["reused"]) == (0, 80)
    assert Path(told["page"]).is_file()


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "1/4/2", "-1/4"])
def test_what_is_no_shard_is_refused_before_anything_is_read(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not I/N with I from 1 to N, such as 1/16"):
        run(experiment("surprisal"), Execution(output=tmp_path, shard=text))


@pytest.mark.usefixtures("here")
def test_a_checkpoint_is_copied_once_under_the_hash_of_its_files(tmp_path: Path) -> None:
    spec = ModelSpec(name=MODEL)
    copy = point_to_folder(spec, tmp_path)
    assert copy == ModelSpec(name=str(tmp_path / resolve_revision(spec)))
    assert resolve_revision(copy) == resolve_revision(spec)
    weights = Path(copy.name) / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert point_to_folder(spec, tmp_path) == copy
    assert weights.stat().st_mtime_ns == written
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert point_to_folder(spec, tmp_path) == copy
    assert weights.read_bytes() == whole
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_bundled_model_is_found_by_its_name_everywhere(tmp_path: Path) -> None:
    spec = ModelSpec(name="sonde/mini-decoder")
    assert point_to_folder(spec, tmp_path) == spec


@pytest.mark.usefixtures("here")
def test_a_killed_driver_goes_on_with_the_same_command(tmp_path: Path) -> None:
    """What had a receipt is not read again; what was in flight, at most a job a worker, is."""
    pytest.importorskip("ray").shutdown()
    folder, workers = tmp_path / "run", 2
    (tmp_path / "many").mkdir()
    for module in MANY:
        (tmp_path / "many" / f"{module}.py").write_bytes(
            Path(os.__file__).with_name(f"{module}.py").read_bytes()
        )
    asked = ["run", "-m", MODEL, "-c", f"local:{tmp_path / 'many'}", "--limit", "640", "--per-cluster", "0"]
    asked += ["-l", "surprisal", "--include-seen", "--no-report"]
    command = [sys.executable, "-c", "from sonde.cli.commands import main; main()", *asked]
    command += ["--executor", "ray", "--workers", str(workers), "--json", "-o", str(folder)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    driver = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    receipts = f"{receipt_path(folder, 'observations')}".removesuffix(".json")
    for _ in range(2400):
        if list(Path(receipts).rglob("*.json")) or driver.poll() is not None:
            break
        time.sleep(0.05)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    time.sleep(SECONDS_OF_AN_ORPHAN)
    done = [Path(one).relative_to(receipts) for one in Path(receipts).rglob("*.json")]
    stamps = {one: (folder / "observations" / one).with_suffix("").stat().st_mtime_ns for one in done}
    again = subprocess.run(command, env=environment, capture_output=True, check=True)
    told = json.loads(again.stdout)
    assert done and told["observed"] and told["reused"]
    assert stamps == {one: (folder / "observations" / one).with_suffix("").stat().st_mtime_ns for one in done}
    kept = sum(
        pl.read_parquet((folder / "observations" / one).with_suffix(""))["item_id"].n_unique() for one in done
    )
    assert told["reused"] == kept
    undisturbed = [*asked, "--json", "-o", str(tmp_path / "undisturbed")]
    whole = json.loads(CliRunner().invoke(app, undisturbed).stdout)
    assert whole["observed"] == told["observed"] + told["reused"]
    assert read_scores(folder / "scores.parquet").equals(read_scores(tmp_path / "undisturbed/scores.parquet"))
