"""Whoever reads a repository from inside it does not have its modules executed by processes that start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sonde.base.process import SAFE_PATH_ENV, safe_path_environment
from sonde.corpora.sources.pypi import _download_wheel, pip_setting
from sonde.executors import EXECUTORS


@pytest.fixture
def witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What modules of the current folder write that go by names which every Python process imports."""
    folder, path = tmp_path / "code", tmp_path / "ran"
    folder.mkdir()
    for name in ("pip", "re", "runpy", "signal", "threading", "tempfile", "pickle", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(path)!r}, 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv(SAFE_PATH_ENV, raising=False)
    return path


def test_workers(witness: Path) -> None:
    found = EXECUTORS.load("local").map(len, ["a", "bb", "ccc"], workers=2)
    assert sorted(found) == [("a", 1), ("bb", 2), ("ccc", 3)]
    assert not witness.exists() and SAFE_PATH_ENV not in os.environ


def test_pip(witness: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    pip_setting("find-links")
    assert "demo" in _download_wheel("demo", "1.0", tmp_path / "shelf")
    assert not witness.exists()


def test_the_attack_works_where_nothing_is_done(witness: Path) -> None:
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "pip", "--version"]) == 1
    assert witness.exists()


def test_the_environment_is_as_it_was_whatever_the_order_in_which_threads_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for before in (None, "", "other"):
        monkeypatch.delenv(SAFE_PATH_ENV, raising=False)
        if before is not None:
            monkeypatch.setenv(SAFE_PATH_ENV, before)
        first, second = safe_path_environment(), safe_path_environment()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert os.environ[SAFE_PATH_ENV] == "1"
        second.__exit__(None, None, None)
        assert os.environ.get(SAFE_PATH_ENV) == before
