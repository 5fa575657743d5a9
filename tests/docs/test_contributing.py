"""The pages of docs/contributing are true: a reader who follows one, in a shell, gets what it says.

Files are written as printed and commands run as printed. Then the file is moved where the page says, in a
copy of the tree, and is found there by its public name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest
from tests.docs.conftest import save_checkpoint

import sonde

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page for page in sorted((ROOT / "docs/contributing").glob("*.md"))}
_BLOCK = re.compile(r"(?P<before>[^\n]*(?:\n[^\n]+)*)\n\n```(?P<kind>\w+)\n(?P<text>.*?)```", re.DOTALL)


def read_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind and text of each block, and the file that it is printed as; empty for none."""
    for block in _BLOCK.finditer(PAGES[page].read_text(encoding="utf-8")):
        files = re.findall(r"`([\w./]+\.(?:py|toml))`", block["before"])
        yield block["kind"], block["text"], files[-1] if files else ""


def read_target(page: str) -> str:
    """Return where a page says that its file or folder is moved."""
    text = PAGES[page].read_text(encoding="utf-8").partition("\n## For everyone\n")[2]
    return re.findall(r"`(src/sonde/[\w/.]+)`", text)[0]


def run_shell(program: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program that has to succeed; what it printed."""
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program[-1]}\n{done.stdout}\n{done.stderr}"
    return f"{done.stdout}\n{done.stderr}"


def follow(page: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Write the files of a page, run its commands and its Python that is no file; what these printed."""
    printed: list[str] = []
    for kind, text, file in read_blocks(page):
        if kind == "sh":
            printed.append(run_shell(["bash", "-ec", text], folder, environment))
        elif not file:
            printed.append(run_shell(["python", "-c", text], folder, environment))
        else:
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    return "\n".join(printed)


@pytest.fixture
def reader(workplace: Path) -> Path:
    """The folder of a reader who has code, notebooks, poems and a checkpoint."""
    save_checkpoint(workplace / "checkpoint", inspect.getsource(json))
    (workplace / "notes").mkdir()
    for number in range(8):
        poem = f"Roses are red,\nviolets are {number} times as blue.\n" * 3
        (workplace / "src" / f"{number}.poem").write_text(poem, encoding="utf-8")
        code = [f"def f{number}(x):\n", f"    return x + {number} * len(str(x))\n"]
        cell = {"cell_type": "code", "source": code}
        (workplace / "notes" / f"{number}.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    return workplace


def open_run(folder: Path) -> sonde.Run:
    """Open the one run of a folder."""
    (run,) = (folder / "runs").iterdir()
    return sonde.Run(run)


def read_json_lines(path: Path) -> list[dict[str, object]]:
    """Read a file with one object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_corpus(folder: Path, printed: str) -> None:
    """Check that the code cells of the notebooks are the items."""
    assert "8 items of ./notebooks.py:notes in notes.lock" in printed
    locked = (folder / "notes.lock").read_text(encoding="utf-8")
    assert all(f"{number}.ipynb" in locked for number in range(8))
    assert {row["name"] for row in read_json_lines(folder / "labels.jsonl")} == {f"f{n}" for n in range(8)}
    assert open_run(folder).scores["n_clusters"].max() == 8


def check_executor(folder: Path, printed: str) -> None:
    """Check that the executor ran the jobs."""
    assert "job 1 of 1" in printed
    assert not open_run(folder).scores.is_empty()


def check_family(folder: Path, printed: str) -> None:
    """Check that the checkpoint is read without a start, so that first subwords are not scored."""
    assert "surprisal, checkpoint on Python" in printed
    (run,) = (folder / "runs").iterdir()
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["models"][0]["special"]["bos"] is None
    observed = pl.scan_parquet(run / "observations/**/*.parquet")
    first = observed.group_by("item_id").agg(pl.col("position").min()).collect()
    assert first["position"].unique().to_list() == [1]


def check_language(folder: Path, printed: str) -> None:
    """Check that the poems are the items."""
    assert "8 items of local:src in poems.lock" in printed
    assert open_run(folder).scores["language"].unique().to_list() == ["poems"]


def check_lens(folder: Path, printed: str) -> None:
    """Check that the lens has a headline and a section, and shares forward passes with surprisal."""
    assert "doubt, mini-decoder on Python: Entropy bits" in printed
    run = open_run(folder)
    assert set(run.scores["lens"]) == {"doubt", "surprisal"}
    assert "entropy_bits" in set(run.scores.filter(pl.col("lens") == "doubt")["metric"])
    assert "Entropy bits" in run.page.read_text(encoding="utf-8")
    forwards = json.loads((run.page.parent / "run.json").read_text(encoding="utf-8"))["forwards"]
    assert forwards == {"run": 30, "shared": 30}


def check_plot(folder: Path, printed: str) -> None:
    """Check that the section is in the report, and its table what Python gives."""
    page = open_run(folder).page.read_text(encoding="utf-8")
    assert "How many bits each kind takes" in page
    assert "The scored subwords are of" in page and '"kind-bits"' in page
    assert "Kind" in printed and "mini-decoder" in printed and "shape:" in printed


def check_task(folder: Path, printed: str) -> None:
    """Check that the labels are right, and that the probe was trained on them."""
    rows = read_json_lines(folder / "labels.jsonl")
    assert {row["label"] for row in rows} == {"no", "yes"}
    labels = {row["name"]: row["label"] for row in rows if row["path"] == "textwrap/__init__.py"}
    for function in (textwrap.dedent, textwrap.fill, textwrap.indent, textwrap.shorten):
        assert labels[function.__name__] == ("yes" if re.search(r"\d", inspect.getsource(function)) else "no")
    assert set(open_run(folder).scores["task"]) >= {"mentions_number"}


CHECKS: Mapping[str, Callable[[Path, str], None]] = {
    "corpus": check_corpus,
    "executor": check_executor,
    "family": check_family,
    "language": check_language,
    "lens": check_lens,
    "plot": check_plot,
    "task": check_task,
}
"""What each page says that its commands do."""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_true_for_who_follows_it(page: str, reader: Path, environment: Mapping[str, str]) -> None:
    printed = follow(page, reader, environment)
    CHECKS[page](reader, printed)


LOAD = """
from sonde.experiments.catalogue import REGISTRIES
from sonde.models.engine.family import FAMILIES
from sonde.report import PLOTS
registries = {**REGISTRIES, "plots": PLOTS, "families": FAMILIES}
(registry,) = [registry for registry in registries.values() if NAME in registry.names()]
registry.load(NAME)
(header,) = [header for header in registry.headers() if header.name == NAME]
print(header.summary)
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_an_extension_is_found_where_the_page_moves_it(
    page: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    target = read_target(page)
    folder = Path(target).parent if target.endswith(".py") else Path(target)
    assert (ROOT / folder).is_dir() or (ROOT / folder.parent).is_dir()
    # Links instead of copies, but for what is written.
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", copy_function=os.symlink, ignore=ignored)
    files = [(text, file) for kind, text, file in read_blocks(page) if file and kind != "sh"]
    for text, file in files:
        path = tmp_path / folder / Path(file).name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    code = LOAD.replace("NAME", repr(Path(target).stem))
    place = {**environment, "PYTHONPATH": str(tmp_path / "src")}
    summary = run_shell(["python", "-c", code], tmp_path, place)
    (docstring,) = re.findall(r'\A"""(.*)\.', "\n".join(text for text, file in files if file.endswith(".py")))
    assert docstring in summary
