"""The command confirms the numbers of small runs of the bundled decoder, and finds one that is wrong."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import polars as pl
import pytest

import sonde
from tests.recomputed.__main__ import NUMBERS, main

pytestmark = pytest.mark.slow

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
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with interventions, of functions enough for a map to be fitted."""
    folder = tmp_path_factory.mktemp("changed") / "run"
    options = {"causal": {"methods": "erase,ablate,patch", "items": 4, "patched_cells": 4, "draws": 1}}
    sonde.run(
        models="sonde/mini-decoder",
        lenses=["surprisal", "causal"],
        tasks=["idn", "syntax_relations"],
        limit=110,
        options=options,
        output=folder,
    )
    return folder


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled decoder through the lenses that change nothing."""
    folder = tmp_path_factory.mktemp("read") / "run"
    options = {
        "attention": {"random_weights_share": 0.0},
        "probe": {"folds": 1, "controls": False},
        "cloze": {"per_library": 1, "templates": "call", "candidates": 3, "frames": 0.0},
    }
    sonde.run(
        models="sonde/mini-decoder",
        lenses=["surprisal", "probe", "attention", "cloze"],
        tasks=["idn", "syntax_relations", "api_cloze"],
        limit=24,
        options=options,
        output=folder,
    )
    return folder


def test_numbers_are_confirmed(read: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(read), "--items", "2"])
    table = capsys.readouterr().out
    assert status == 0, table
    for said in ("nats of a subword", "state of a token", "rank of an edge in a head"):
        assert said in table
    assert "mean reciprocal rank of the page" in table


def test_interventions_are_confirmed(changed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(changed), "--only", "erase", "ablate", "patch"])
    table = capsys.readouterr().out
    assert status == 0, table
    for said in ("erasing idn at layer 3", "ablated: nats of dependents after", "margin with a cell patched"):
        assert said in table


def spoil(run: Path, number: str, folder: Path) -> Path:
    """Copy a run, and make the tables of a lens wrong."""
    shutil.copytree(run, folder)
    for path in (folder / "observations" / f"lens={NUMBERS[number][0]}").rglob("*.parquet"):
        pl.read_parquet(path).with_columns(WRONG[number]).write_parquet(path)
    return folder


@pytest.mark.parametrize("number", ["surprisal", "probe", "attention", "cloze"])
def test_a_wrong_number_is_found(number: str, read: Path, tmp_path: Path) -> None:
    assert main([str(spoil(read, number, tmp_path / "run")), "--items", "1", "--only", number]) == 1


@pytest.mark.parametrize("number", ["erase", "ablate", "patch"])
def test_a_wrong_intervention_is_found(number: str, changed: Path, tmp_path: Path) -> None:
    assert main([str(spoil(changed, number, tmp_path / "run")), "--only", number]) == 1


def test_every_number_is_tried() -> None:
    assert WRONG.keys() == NUMBERS.keys()


def test_only_the_test_imports_sonde() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path == Path(__file__):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.partition(".")[0] == "sonde"], path.name
