"""The command confirms the numbers of small runs of both bundled models, and finds one that is wrong."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import polars as pl
import pytest

import sonde
from tests.recomputed.__main__ import NUMBERS, main

pytestmark = pytest.mark.slow

OPTIONS = {
    "probe": {"folds": 1, "controls": False},
    "cloze": {"per_library": 1, "templates": "call", "candidates": 3, "frames": 0.0},
    "causal": {"methods": "erase,ablate,patch", "items": 5, "patched_cells": 4, "draws": 1},
}
TASKS = ["idn", "syntax_relations", "api_cloze"]

WRONG: dict[str, pl.Expr] = {
    "surprisal": pl.col("nats") + 0.01,
    "probe": pl.col("scale").list.eval(pl.element() * 2),
    "attention": pl.col("ranks").map_elements(lambda ranks: ranks[::-1], return_dtype=pl.Binary),
    "cloze": pl.col("nats") + 0.01,
    "erase": pl.col("after") + 1,
    "ablate": pl.col("after") + 1,
    "patch": pl.col("after") + 1,
}
"""For each number what makes the tables of its lens wrong."""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled decoder, with functions enough for a map to be fitted."""
    folder = tmp_path_factory.mktemp("decoder") / "run"
    lenses = ["surprisal", "probe", "attention", "cloze", "causal"]
    sonde.run(
        models="sonde/mini-decoder", lenses=lenses, tasks=TASKS, limit=110, options=OPTIONS, output=folder
    )
    return folder


def test_every_number_of_a_decoder_is_confirmed(decoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(decoder), "--items", "15"])
    table = capsys.readouterr().out
    assert status == 0, table
    for said in ("nats of a subword", "answer of a probe", "rank of an edge", "mean reciprocal rank"):
        assert said in table
    for said in ("erasing idn", "ablated: nats of dependents after", "margin with a cell patched"):
        assert said in table


def test_the_numbers_of_an_encoder_are_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {lens: OPTIONS[lens] for lens in ("probe", "cloze")}
    lenses = ["surprisal", "probe", "attention", "cloze"]
    sonde.run(
        models="sonde/mini-encoder",
        lenses=lenses,
        tasks=TASKS,
        limit=30,
        options=options,
        output=tmp_path / "run",
    )
    status = main([str(tmp_path / "run"), "--items", "3"])
    table = capsys.readouterr().out
    assert status == 0, table
    assert "rank of a masked answer" in table


@pytest.mark.parametrize("number", NUMBERS)
def test_a_wrong_number_is_found(number: str, decoder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(decoder, tmp_path / "run")
    for path in (folder / "observations" / f"lens={NUMBERS[number][0]}").rglob("*.parquet"):
        pl.read_parquet(path).with_columns(WRONG[number]).write_parquet(path)
    assert main([str(folder), "--items", "1", "--only", number]) == 1


def test_only_the_test_imports_sonde() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path == Path(__file__):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.partition(".")[0] == "sonde"], path.name
