"""Pickled weights are loaded by way of safetensors, and never run."""

import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.main import get_command
from typer.testing import CliRunner

from sonde.base.errors import InputError, UsageError
from sonde.cli.commands import app
from sonde.lenses import LENSES
from sonde.models import ModelSpec, convert_checkpoint, known_checkpoints, load_model, resolve_revision
from sonde.models.engine import convert as module

from .published import PUBLISHED, VOCAB, save_published

IDS = torch.arange(4, VOCAB, 37)[None]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "sonde"))
    return tmp_path / "cache" / "sonde" / "weights"


@pytest.fixture
def at_once(monkeypatch):
    """Read in this process, where starting another for each case would only take time."""

    def run(command, **_):
        answer = module.unpickle.convert(*command[-2:])
        return subprocess.CompletedProcess(command, 0, json.dumps(answer).encode(), b"")

    monkeypatch.setattr(module.subprocess, "run", run)


@torch.inference_mode()
def states(model):
    """Hidden states of every layer, of the decoder where there is one."""
    body = model.base_model
    more = {"decoder_input_ids": IDS.flip(1)} if model.config.is_encoder_decoder else {}
    output = body(input_ids=IDS, output_hidden_states=True, **more)
    return torch.stack(output.decoder_hidden_states if more else output.hidden_states)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.usefixtures("at_once")
def test_the_models_of_the_papers_load_from_pickles_alone(name, tmp_path, cache):
    folder = tmp_path / "model"
    original = save_published(name, folder, shards=1 + len(name) % 2)
    loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
    assert loaded.family == PUBLISHED[name].family
    assert torch.equal(states(loaded.model), states(original))
    assert len(list(cache.iterdir())) == 1
    assert name in {header.name for header in known_checkpoints()}


def test_the_page_names_every_model_of_the_papers_with_a_command():
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    commands = re.findall(r"^\|[^|]+\|[^|]+\| `sonde (run [^`]+)` \|$", text, re.MULTILINE)
    group: Any = get_command(app)
    named = []
    for command in commands:
        given = group.commands["run"].make_context("run", shlex.split(command)[1:]).params
        assert given["lenses"][0] in LENSES.names() and len(given["corpora"]) == 1
        named += given["models"]
    assert len(PUBLISHED) == 19 and set(PUBLISHED) <= set(named)
    assert set(named) <= {header.name for header in known_checkpoints()}


def test_a_conversion_is_kept_by_content(tmp_path, cache, monkeypatch):
    save_published("Salesforce/codet5-base", tmp_path / "a", shards=2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    first = load_model(ModelSpec(name=str(tmp_path / "a"), device="cpu"))
    monkeypatch.setattr(subprocess, "run", None)
    second = load_model(ModelSpec(name=str(tmp_path / "b"), device="cpu"))
    assert torch.equal(states(first.model), states(second.model)) and len(list(cache.iterdir())) == 1
    assert first.revision == second.revision


def test_the_revision_of_a_folder_counts_its_pickles(tmp_path):
    save_published("microsoft/codebert-base", tmp_path / "a")
    before = resolve_revision(ModelSpec(name=str(tmp_path / "a")))
    torch.save({}, tmp_path / "a" / "pytorch_model.bin")
    assert resolve_revision(ModelSpec(name=str(tmp_path / "a"))) != before


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_convert_writes_a_whole_checkpoint(shards, tmp_path):
    original = save_published("uclanlp/plbart-base", tmp_path / "old", shards=shards)
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "old"), str(tmp_path / "new")])
    assert done.exit_code == 0 and done.output.strip() == str(tmp_path / "new")
    held = {}
    for file in (tmp_path / "new").glob("*.safetensors"):
        held |= load_file(file)
    weights = original.state_dict()
    assert held.keys() == weights.keys()
    assert all(torch.equal(held[key], weights[key]) for key in weights)
    assert not list((tmp_path / "new").glob("*.bin*"))
    loaded = load_model(ModelSpec(name=str(tmp_path / "new"), device="cpu"))
    assert torch.equal(states(loaded.model), states(original))
    with pytest.raises(UsageError, match="already has safetensors weights"):
        convert_checkpoint(str(tmp_path / "new"), tmp_path / "newer")
    with pytest.raises(UsageError, match="not empty"):
        convert_checkpoint(str(tmp_path / "old"), tmp_path / "new")


def test_every_kind_of_number_is_written_as_it_was(tmp_path):
    folder = tmp_path / "old"
    save_published("microsoft/codebert-base", folder)
    whole = torch.randn(6, 4)
    weights = {
        "half": whole.half(), "brain": whole.bfloat16(), "double": whole.double(), "whole": whole.long(),
        "small": whole.to(torch.int8), "yes": whole > 0, "view": whole[1:4, ::2], "turned": whole.T,
        "one": torch.tensor(3.5), "none": torch.empty(0, 4), "again": whole, "same": whole,
        "parameter": torch.nn.Parameter(whole),
    }  # fmt: skip
    torch.save(weights, folder / "pytorch_model.bin")
    held = load_file(convert_checkpoint(str(folder), tmp_path / "new") / "model.safetensors")
    assert held.keys() == weights.keys()
    for key, one in weights.items():
        assert held[key].dtype == one.dtype and torch.equal(held[key], one.detach()), key


class Payload:
    """Writes a file when a pickle of it is read without restrictions."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (os.system, (f"touch {self.target}",))


@pytest.mark.parametrize("kind", ["zip", "legacy", "plain"])
def test_a_payload_is_refused_and_never_runs(kind, tmp_path, cache):
    folder, mark = tmp_path / "model", tmp_path / "ran"
    save_published("microsoft/codebert-base", folder)
    file = folder / "pytorch_model.bin"
    if kind == "plain":
        file.write_bytes(pickle.dumps(Payload(mark), protocol=2))
    else:
        torch.save({"weight": Payload(mark)}, file, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(InputError, match=r"pytorch_model\.bin is refused: ") as error:
        load_model(ModelSpec(name=str(folder), device="cpu"))
    assert "\n" not in str(error.value) and not mark.exists()
    assert kind == "plain" or "posix.system" in str(error.value)
    assert not cache.exists() or not list(cache.iterdir())
    done = CliRunner().invoke(app, ["convert", str(folder), str(tmp_path / "new")])
    assert done.exit_code and not mark.exists() and not (tmp_path / "new").exists()
    # The same file does run where nothing restricts the reader.
    torch.load(file, weights_only=False) if kind != "plain" else pickle.loads(file.read_bytes())
    assert mark.exists()


def claims_too_much(file):
    torch.save({"weight": torch.zeros(1).expand(10**12)}, file)


def shares_too_much(file):
    one = torch.zeros(1 << 16)
    torch.save({str(number): one for number in range(400)}, file)


def half_a_zip(file):
    torch.save({"weight": torch.zeros(100)}, file)
    file.write_bytes(file.read_bytes()[:-200])


def half_a_legacy(file):
    torch.save({"weight": torch.zeros(100)}, file, _use_new_zipfile_serialization=False)
    file.write_bytes(file.read_bytes()[:-200])


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (claims_too_much, "claims 4000000000000 bytes and has 4"),
        (shares_too_much, "its weights would take"),
        (half_a_zip, "fetched incompletely"),
        (half_a_legacy, "fetched incompletely"),
        (lambda file: file.write_bytes(b""), "fetched incompletely"),
        (lambda file: file.write_text("hello"), "does not understand it"),
        (lambda file: torch.save([1, 2], file), "it has a list"),
        (lambda file: torch.save({"epoch": 3}, file), "no weights by name"),
        (lambda file: torch.save({"a": torch.eye(3).to_sparse()}, file), "sparse"),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_what_is_no_checkpoint_is_refused_in_one_line(damage, says, tmp_path):
    save_published("microsoft/codebert-base", tmp_path / "model")
    damage(tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(InputError, match=says) as error:
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        ("raise SystemExit('torch is broken')", "failed: torch is broken"),
        ("import time; time.sleep(60)", "took over 1 s"),
    ],
)
def test_how_the_reading_process_ended_is_said(script, says, tmp_path, monkeypatch):
    save_published("microsoft/codebert-base", tmp_path / "model")
    (tmp_path / "reader.py").write_text(script)
    monkeypatch.setattr(module.unpickle, "__file__", str(tmp_path / "reader.py"))
    monkeypatch.setattr(module, "_SECONDS", 1)
    with pytest.raises(InputError, match=says):
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))


class TakesMemory:
    """Asks for 64 GiB when it is read, which the restricted reader allows."""

    def __reduce__(self):
        return (bytearray, (1 << 36,))


def test_the_reading_process_has_bounded_memory(tmp_path):
    save_published("microsoft/codebert-base", tmp_path / "model")
    torch.save({"weight": TakesMemory()}, tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(InputError, match="does not fit into the memory"):
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))


def test_the_reading_process_sees_no_secrets(tmp_path, monkeypatch):
    save_published("microsoft/codebert-base", tmp_path / "model")
    (tmp_path / "reader.py").write_text("import os; raise SystemExit(' '.join(sorted(os.environ)))")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(module.unpickle, "__file__", str(tmp_path / "reader.py"))
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES") as error:
        load_model(ModelSpec(name=str(tmp_path / "model"), device="cpu"))
    assert "HF_TOKEN" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2])
def test_a_name_of_the_hub_is_read_from_its_cache(shards, tmp_path):
    """The layout that the hub's client leaves: blobs by hash, a snapshot of links, a ref to its commit."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    save_published("microsoft/codebert-base-mlm", tmp_path / "files", shards=shards)
    home = tmp_path / "hub" / "models--microsoft--codebert-base-mlm"
    snapshot = home / "snapshots" / commit
    for part in (home / "blobs", home / "refs", snapshot):
        part.mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    for number, file in enumerate(sorted((tmp_path / "files").iterdir())):
        shutil.copyfile(file, home / "blobs" / f"{number:064x}")
        (snapshot / file.name).symlink_to(Path("../../blobs") / f"{number:064x}")
    code = """
        import json
        from pathlib import Path
        from sonde.models import ModelSpec, convert_checkpoint, load_model
        loaded = load_model(ModelSpec(name="microsoft/codebert-base-mlm", device="cpu"))
        made = convert_checkpoint("microsoft/codebert-base-mlm", Path("made"))
        again = load_model(ModelSpec(name="made", device="cpu"))
        print(json.dumps([loaded.revision, again.family, sorted(file.name for file in made.iterdir())]))
    """
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    revision, family, files = json.loads(done.stdout)
    assert (revision, family) == (commit, "roberta")
    assert {"config.json", "tokenizer.json"} <= set(files) and not any(".bin" in file for file in files)
