"""The pages of docs/contributing are true: their files are written as printed and their commands run."""

import html
import inspect
import json
import re
import textwrap
from pathlib import Path

import pytest
from transformers import GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from sonde.cli.commands import app
from tests.experiments.conftest import save_tokenizer

PAGES = Path(__file__).parents[2] / "docs" / "contributing"
EXECUTED = ("task", "lens", "corpus", "family", "language", "executor")
_BLOCK = re.compile(r"(?P<before>[^\n]*(?:\n[^\n]+)*)\n\n```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)
_FILE = re.compile(r"`([\w./]+\.(?:py|toml))`")


def carry_out(page: str, folder: Path) -> list[str]:
    """Write the files that a page prints into a folder and run its commands there; what they printed."""
    said: list[str] = []
    for block in _BLOCK.finditer((PAGES / f"{page}.md").read_text(encoding="utf-8")):
        if block["kind"] == "sh":
            for line in block["text"].splitlines():
                done = CliRunner().invoke(app, line.split()[1:])
                assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
                said.append(done.output)
        elif _FILE.search(block["before"]):
            path = folder / _FILE.findall(block["before"])[-1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")
    return said


@pytest.mark.slow
@pytest.mark.parametrize("page", EXECUTED)
def test_a_page_is_carried_out_as_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONDE_OUTSIDE", "{}")
    monkeypatch.chdir(tmp_path)
    save_tokenizer(tmp_path / "checkpoint")
    shape = {"vocab_size": 400, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=1)).save_pretrained(tmp_path / "checkpoint")
    for module in (textwrap, inspect, json, html, re):
        (tmp_path / "src" / module.__name__).mkdir(parents=True)
        source = inspect.getsource(module)
        (tmp_path / "src" / module.__name__ / "__init__.py").write_text(source, encoding="utf-8")
    (tmp_path / "notes").mkdir()
    for n in range(8):
        (tmp_path / "src" / f"{n}.poem").write_text(f"Roses are red,\nviolets are {n} times as blue.\n" * 3)
        cell = {"cell_type": "code", "source": [f"def f{n}(x):\n", f"    return x + {n} * len(str(x))\n"]}
        (tmp_path / "notes" / f"{n}.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert carry_out(page, tmp_path)
