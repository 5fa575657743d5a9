"""`sonde doctor` says what an installation has and lacks, and never a key."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as find_version
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import sonde.api.doctor
from sonde.cli import app

TOKEN = "hf_thisIsASecretToken"


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))

    def call(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["doctor", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    return call


def test_what_is_here_is_told(doctor, tmp_path: Path) -> None:
    (tmp_path / "cache" / "gguf").mkdir(parents=True)
    (tmp_path / "cache" / "gguf" / "model").write_bytes(b"0" * 2000)
    found = json.loads(doctor("--json"))
    assert found["versions"]["torch"] == find_version("torch") == torch.__version__
    assert found["torch_build"] == ("CPU" if torch.version.cuda is None else f"CUDA {torch.version.cuda}")
    assert found["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    assert found["cache"]["path"] == str(tmp_path / "cache") and found["cache"]["size"] == 2000
    assert found["cache"]["free"] > 0 and found["cache"]["writable"]
    assert found["hub"]["models"] == [] and found["problems"] == []
    assert "torch --index-url" in doctor()


def test_a_token_is_told_and_never_printed(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    text, data = doctor(), doctor("--json")
    assert TOKEN not in text + data
    assert json.loads(data)["hub"]["has_token"] is True
    assert json.loads(data)["hub"]["offline"] == ["HF_HUB_OFFLINE"]
    assert "not used: HF_HUB_OFFLINE is set" in text


def test_an_extra_says_what_it_lacks_and_how_it_is_installed(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in ("gguf", "gensim"):
            raise PackageNotFoundError(name)
        return "0.1" if name == "peft" else find_version(name)

    monkeypatch.setattr(sonde.api.doctor, "version", version)
    extras = json.loads(doctor("--json"))["extras"]
    assert extras["gguf"] == {"lacks": ["gguf"], "install": "pip install 'sonde[gguf]'"}
    assert extras["baselines"]["lacks"] == ["gensim"]
    (old,) = extras["peft"]["lacks"]
    assert old.startswith("peft>=") and old.endswith("(0.1 is installed)")
    assert "lacks gguf: pip install 'sonde[gguf]'" in doctor()


def test_what_is_wrong_is_a_problem_and_exit_code_one(
    doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        return "1.0" if name == "transformers" else find_version(name)

    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "below"))
    monkeypatch.setattr(sonde.api.doctor, "version", version)
    monkeypatch.setattr(sonde.api.doctor, "_MINIMUM_FREE", 1 << 60)
    problems = json.loads(doctor("--json", code=1))["problems"]
    assert any(line.startswith("sonde needs transformers>=5") for line in problems)
    assert any("free: free space, or move the cache" in line for line in problems)
