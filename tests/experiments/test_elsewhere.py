"""Runs whose jobs are done in other processes that share nothing with this one but the folder of the run."""

import html
import inspect
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.models import ModelSpec, resolve_revision, stored
from sonde.results.scores import read_scores

pytestmark = pytest.mark.slow

MODEL, CODE = "./model", "local:code"
"""Both relative: where a worker's folder is another one, they lead nowhere."""

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


@pytest.fixture
def here(decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a few modules of the standard library, in which the command is given."""
    folder = tmp_path / "here"
    shutil.copytree(decoder, folder / "model")
    for module in (textwrap, inspect, json, html, re):
        (folder / "code" / module.__name__).mkdir(parents=True)
        (folder / "code" / module.__name__ / "__init__.py").write_text(inspect.getsource(module))
    monkeypatch.chdir(folder)
    return folder


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


@pytest.mark.usefixtures("here", "strangers")
def test_workers_with_other_files_give_the_scores_of_this_machine() -> None:
    wanted = experiment(*LENSES)
    done = [
        run(wanted, Execution(output=Path(executor), executor=executor, workers=workers))
        for executor, workers in (("local", 1), ("ray", 2))
    ]
    ours, theirs = (read_scores(outcome.directory.scores) for outcome in done)
    assert set(ours["lens"]) == set(LENSES)
    assert ours.equals(theirs)
    assert [job.parts for job in done[0].jobs] == [job.parts for job in done[1].jobs]
    assert [copy.name for copy in Path("ray/models").iterdir()] == [resolve_revision(ModelSpec(name=MODEL))]
    assert not Path("local/models").exists()
    assert not list(Path("ray").glob(".seen-*"))


@pytest.mark.usefixtures("here")
def test_a_checkpoint_is_copied_once_under_the_hash_of_its_files(tmp_path: Path) -> None:
    spec = ModelSpec(name=MODEL)
    copy = stored(spec, tmp_path)
    assert copy == ModelSpec(name=str(tmp_path / resolve_revision(spec)))
    assert resolve_revision(copy) == resolve_revision(spec)
    weights = Path(copy.name) / "model.safetensors"
    written = weights.stat().st_mtime_ns
    assert stored(spec, tmp_path) == copy
    assert weights.stat().st_mtime_ns == written
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert stored(spec, tmp_path) == copy
    assert weights.read_bytes() == whole
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_bundled_model_is_found_by_its_name_everywhere(tmp_path: Path) -> None:
    spec = ModelSpec(name="sonde/mini-decoder")
    assert stored(spec, tmp_path) == spec
