"""Real kills, several processes, full disks: what reaches the disk, and what comes of it."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tests.training.recipes import change, silent

from sonde.base.errors import InputError, StoreError
from sonde.training.pretrain import pretrain as module
from sonde.training.pretrain.data import pack_documents
from sonde.training.pretrain.loop import find_last_checkpoint, train
from sonde.training.pretrain.pretrain import build_dataset, pretrain
from sonde.training.pretrain.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("one_thread")

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
COMMAND = ["-c", "from sonde.cli.commands import main; main()", "pretrain"]


def start(recipe: Path, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-u", *COMMAND, str(recipe)],
        cwd=folder,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_until(recipe: Path, folder: Path, step: int | None) -> str:
    """Run the command; with a step, kill it as soon as it says that it has done so many."""
    with start(recipe, folder) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if step is not None and line.startswith("step ") and int(line.split()[1].split("/")[0]) >= step:
                process.kill()
                break
        said += process.stdout.read()
    assert process.returncode == (0 if step is None else -9), said
    return said


@pytest.mark.slow
def test_killed_at_any_step_it_ends_with_the_same_weights_and_the_same_curve(pairs_path, tmp_path):
    change(pairs_path, ("log_every = 2", "log_every = 1"))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_until(pairs_path, whole, None)
    for step in sorted(random.Random(11).sample(range(1, 12), 3)):
        run_until(pairs_path, killed, step)
    assert "resuming from" in run_until(pairs_path, killed, None)
    folders = [folder / ".training" / "tiny" for folder in (whole, killed)]
    for file in ("checkpoint-12/model.safetensors", "model/model.safetensors", "model/curve.csv"):
        one, other = ((folder / file).read_bytes() for folder in folders)
        assert one == other, file
    assert len(pl.read_csv(folders[0] / "model" / "curve.csv")) == 12


@pytest.mark.slow
def test_a_checkpoint_that_a_kill_cut_short_does_not_count(recipe_path, tmp_path):
    recipe = read_recipe(recipe_path)
    packed = pack_documents(recipe, tmp_path / "data", silent)

    def run(folder):
        return train(recipe, build_dataset(packed, recipe), folder, resume=True, report=silent)

    whole = run(tmp_path / "whole")
    home = tmp_path / "killed"
    run(home)
    # As if it had been killed at update 12, its weights half written; update 10 was whole.
    half = home / "checkpoint-12" / "model.safetensors"
    half.write_bytes(half.read_bytes()[:100])
    (home / "clock.json").write_text('{"step": 10, "seconds": 1.0}')
    found = find_last_checkpoint(home)
    assert found is not None
    assert found[0].name == "checkpoint-10"
    again = run(home)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.curve == again.curve


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["pairs", "masked"])
def test_parts_of_an_update_weigh_alike(pairs_path, tmp_path, objective, monkeypatch):
    change(pairs_path, ('"pairs"', f'"{objective}"'), ("num_hidden_layers = 2", _STILL))
    trained, rows = [], []
    step = transformers.Trainer.training_step

    def noting(self, model, inputs, *args, **kwargs):
        rows[-1].append(len(inputs["input_ids"]))
        return step(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(transformers.Trainer, "training_step", noting)
    for at_once in (4, 1):
        change(pairs_path, (f"at_once = {2 if at_once == 4 else 4}", f"at_once = {at_once}"))
        recipe = read_recipe(pairs_path)
        packed = pack_documents(recipe, tmp_path / "data", silent)
        rows.append([])
        trained.append(
            train(recipe, build_dataset(packed, recipe), tmp_path / str(at_once), resume=True, report=silent)
        )
    one, other = (np.array(result.curve) for result in trained)
    np.testing.assert_allclose(one, other, rtol=1e-4)
    assert [max(each) for each in rows] == [4, 1]


_ADAMW = '[optimiser]\nhidden = "adamw"\nhidden_lr = 0.01\n'
_STILL = "num_hidden_layers = 2\nhidden_dropout_prob = 0.0\nattention_probs_dropout_prob = 0.0"


SPREAD_ON_PROCESSORS = """
import accelerate.state, torch
from accelerate.utils import DistributedType

made, barrier = accelerate.state.PartialState.__init__, torch.distributed.barrier

def as_devices(self, *args, **kwargs):
    made(self, *args, **kwargs)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU

accelerate.state.PartialState.__init__ = as_devices
torch.distributed.barrier = lambda *_, **__: barrier()
"""
"""accelerate spreads weights over accelerators alone, PyTorch over processors too: take those for these."""

ONCE = """
import pathlib
from sonde.cli import main

def exit_code():
    try:
        main()
    except SystemExit as ended:
        return ended.code

assert not exit_code()
"""

NO_THREAD = """
threads = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
assert threads and not [name for name in threads if "gloo" in name]
"""
"""Behind the command no thread of the group is left, any of which could abort the process."""

AGAIN = """
assert exit_code() == 2
"""
"""Nor is the group."""

KEPT = """
import sys, pathlib, torch
from sonde.training.pretrain.pretrain import pretrain

torch.distributed.init_process_group("gloo")
for name in ("one", "two"):
    pretrain(pathlib.Path(sys.argv[1]), output=pathlib.Path(name), report=print)
torch.distributed.destroy_process_group()
"""
"""Two trainings in a group that was there before."""


def launch(script: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"),
            script,
            *arguments,
        ],
        cwd=folder,
        env=os.environ | ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_a_group_of_processes_that_was_there_before_is_kept(pairs_path, tmp_path):
    script = tmp_path / "launch.py"
    script.write_text(KEPT)
    said = launch(script, str(pairs_path), folder=tmp_path).stdout
    assert said.count("step 12/12") == 1
    assert "resuming from" in said
    assert (tmp_path / "two" / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("spread", [False, True])
def test_two_processes_give_the_curve_of_one(pairs_path, tmp_path, spread):
    change(pairs_path, ("num_hidden_layers = 2", _STILL), ("[evaluation]", _ADAMW + "[evaluation]"))
    recipe = read_recipe(pairs_path)
    packed = pack_documents(recipe, tmp_path / "two" / ".training", silent)
    alone = train(recipe, build_dataset(packed, recipe), tmp_path / "one", resume=True, report=silent)
    if spread:
        change(pairs_path, ("log_every = 2", "log_every = 2\nfsdp = true"))
    script = tmp_path / "launch.py"
    # What PyTorch remembers of spread weights keeps the threads; on accelerators there are none.
    script.write_text(SPREAD_ON_PROCESSORS + ONCE + AGAIN if spread else ONCE + NO_THREAD + AGAIN)
    said = launch(script, "pretrain", str(pairs_path), folder=tmp_path / "two")
    assert "has left the process group" in said.stderr
    home = tmp_path / "two" / ".training" / "tiny"
    assert {path.name for path in (home / "checkpoint-12").glob("rng_state*")} == {
        "rng_state_0.pth",
        "rng_state_1.pth",
    }
    assert (home / "checkpoint-12" / "pytorch_model_fsdp.bin").is_file() == spread
    curve = pl.read_csv(home / "model" / "curve.csv").to_numpy()
    np.testing.assert_allclose(curve, np.array(alone.curve), rtol=1e-4)
    weights = load_file(home / "checkpoint-12" / "model.safetensors")
    for name, weight in alone.model.state_dict().items():
        if name in weights:
            torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=1e-3)


@pytest.fixture
def small_disk():
    """Files of at most so many bytes: the kernel refuses the next write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["recipe_path", "pairs_path"])
def test_a_full_disk_is_one_line_and_loses_nothing(request, kind, tmp_path, small_disk):
    path = request.getfixturevalue(kind)
    lines: list[str] = []
    small_disk(3_000)
    with pytest.raises(StoreError, match="cannot write") as caught:
        pretrain(path, report=lines.append)
    assert "\n" not in str(caught.value)
    small_disk(resource.RLIM_INFINITY)
    recipe = read_recipe(path)
    packed = pack_documents(recipe, module.WORK, silent)
    home = module.WORK / "tiny"
    whole = train(recipe, build_dataset(packed, recipe), tmp_path / "whole", resume=True, report=silent)

    class Filling(type(build_dataset(packed, recipe))):
        """The disk is full from the sixth update on."""

        def __getitem__(self, k):
            if k >= 5 * recipe.training.blocks_per_step:
                small_disk(20_000)
            return super().__getitem__(k)

    given = (packed.tokens,) if packed.pairs is None else (packed.tokens, packed.pairs)
    with pytest.raises(StoreError, match="the last whole one is kept") as caught:
        train(recipe, Filling(*given, recipe), home, resume=True, report=silent)
    assert "\n" not in str(caught.value)
    small_disk(resource.RLIM_INFINITY)
    found = find_last_checkpoint(home)
    assert found is not None
    assert found[0].name == "checkpoint-4"
    again = train(recipe, build_dataset(packed, recipe), home, resume=True, report=silent)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    small_disk(20_000)
    with pytest.raises(StoreError, match="checkpoints are kept"):
        pretrain(path, report=silent)


def one_line(path: Path, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        pretrain(path, report=silent)
    assert "\n" not in str(caught.value)


def test_a_corpus_smaller_than_its_vocabulary(pairs_path):
    one_line(change(pairs_path, ("size = 300", "size = 30000")), InputError, "the texts give only")


def test_a_corpus_that_does_not_parse(pairs_path, corpus):
    for file in corpus.rglob("*.py"):
        file.write_text(file.read_text() + "\ndef broken(:\n")
    one_line(pairs_path, InputError, "no file left to train on.*does not parse")


def test_a_language_without_a_lexer(pairs_path, corpus):
    (corpus / "north" / "notes.txt").write_text("Words and words. " * 40)
    change(pairs_path, ('language = "python"', 'language = "text"'))
    one_line(pairs_path, Exception, "has no program; languages that have: .*java.*python")


def test_a_head_that_is_not_there(pairs_path):
    one_line(change(pairs_path, ('"bert"', '"roberta"')), InputError, "no head for the next sentence")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"pairs"', '"masked"', "another architecture"),
        ("seed = 3", "seed = 4", "another order of samples"),
        ("predictions = 4", "predictions = 5", "another order of samples"),
        ("size = 300", "size = 310", "another"),
        ("[optimiser]", '[optimiser]\nhidden = "adamw"', "another optimiser"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_and_kept(pairs_path, old, new, words):
    change(pairs_path, ("[evaluation]", "[optimiser]\n        [evaluation]"), ("steps = 12", "steps = 4"))
    recipe = read_recipe(pairs_path)
    packed = pack_documents(recipe, module.WORK, silent)
    train(recipe, build_dataset(packed, recipe), module.WORK / "tiny", resume=True, report=silent)
    one_line(change(pairs_path, (old, new)), InputError, words)
    assert find_last_checkpoint(module.WORK / "tiny") is not None
