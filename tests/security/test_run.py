"""A run of five lenses over code that attacks who imports it, with keys in the environment and no network."""

from __future__ import annotations

import html
import inspect
import json
import re
import shutil
import socket
import textwrap
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import sonde
from sonde.base.errors import InputError
from sonde.store.run_folder import RunDirectory
from tests.experiments.conftest import save_decoder

LENSES = ("surprisal", "probe", "attention", "cloze", "finetune")
KEYS = {
    "HF_TOKEN": "hf_0123456789secret",
    "AWS_SECRET_ACCESS_KEY": "aws/0123456789+secret",
    "OPENAI_API_KEY": "sk-0123456789secret",
}


@dataclass
class Attacked:
    """The run, what its code would have left behind, and what was asked of the network."""

    run: sonde.Run
    model: Path
    witness: Path
    connected: list[object]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    root = tmp_path_factory.mktemp("attacked")
    witness = root / "ran"
    attack = f"__import__('pathlib').Path({str(witness)!r}).write_text('ran')\n"
    for module in (textwrap, inspect, json, html, re):
        folder = root / "code" / module.__name__
        folder.mkdir(parents=True)
        text = inspect.getsource(module)
        # Behind the imports from the future, which stand first.
        (folder / "__init__.py").write_text(f"{text}\n{attack}", encoding="utf-8")
        for name in ("conftest", "setup", "sitecustomize", "usercustomize", "__main__"):
            (folder / f"{name}.py").write_text(attack, encoding="utf-8")
    for name in ("conftest", "setup", "sitecustomize"):
        (root / "code" / f"{name}.py").write_text(attack, encoding="utf-8")
    model = save_decoder(root / "model", context=256)
    connected: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        connected.append(arguments)
        raise OSError("the network is forbidden")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        patch.chdir(root / "code")
        for name, value in KEYS.items():
            patch.setenv(name, value)
        run = sonde.run(
            models=model,
            lenses=LENSES,
            tasks=("len", "jft", "api_cloze", "wrong_operator"),
            corpora="local:.",
            limit=30,
            options={
                "cloze": {"candidates": 3, "scope": "all", "templates": "import"},
                "finetune": {"epochs": 1, "length": 64, "cut": "keep"},
            },
            output=root / "run",
        )
    return Attacked(run, model, witness, connected)


pytestmark = pytest.mark.slow


def test_every_lens_has_read_the_code_and_nothing_of_it_was_executed(attacked: Attacked) -> None:
    assert set(attacked.run.scores["lens"]) == set(LENSES)
    assert not attacked.witness.exists()


def test_nothing_was_asked_of_a_network(attacked: Attacked) -> None:
    assert attacked.connected == []


def test_no_key_is_in_any_file(attacked: Attacked) -> None:
    files = [path for path in attacked.run.directory.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        held = path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".parquet":
            # Tables are packed: a text in them is not found in their bytes.
            held = str(pl.read_parquet(path).to_dicts())
        for value in KEYS.values():
            assert value not in held, path


def test_a_run_says_that_a_model_may_not_run_code_of_its_own(attacked: Attacked) -> None:
    assert attacked.run.summary["execution"]["trust_remote_code"] is False


def test_a_run_cannot_have_a_model_family_of_its_own_executed(attacked: Attacked, tmp_path: Path) -> None:
    shutil.copytree(attacked.run.directory, tmp_path / "run")
    witness = tmp_path / "ran"
    family = tmp_path / "run" / "family.py"
    family.write_text(f"open({str(witness)!r}, 'w')\n")
    directory = RunDirectory(tmp_path / "run")
    summary = directory.read_summary()
    name, named = summary["models"][0]["name"], f"{family}:{attacked.model}"
    directory.write_summary(json.loads(json.dumps(summary).replace(json.dumps(name), json.dumps(named))))
    file = tmp_path / "new.py"
    file.write_text("def f(x):\n    return x\n")
    with pytest.raises(InputError, match="code that a run names is not executed"):
        sonde.Run(tmp_path / "run").predict(file, task="jft")
    assert not witness.exists()
