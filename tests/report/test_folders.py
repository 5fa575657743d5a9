"""How the report is laid out: a folder a lens, and no lens's name anywhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import sonde.report
from sonde.lenses import LENSES
from sonde.report import PLOTS
from sonde.report.headlines import TITLES

ROOT = Path(sonde.report.__file__).parent
SHARED = [
    *ROOT.glob("*.py"),
    *(path for path in ROOT.rglob("*") if path.parent.name.startswith("_") and path.suffix in (".py", ".j2")),
]


def test_there_are_few_entries() -> None:
    entries = {path.name for path in ROOT.iterdir()} - {"__pycache__"}
    assert len(entries) <= 14
    assert {name for name in entries if not name.startswith("_")} == set(LENSES.names())


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_lens_is_named_in_what_all_share(path: Path) -> None:
    # A causal model reads from left to right: of that lens's name the field makes a word of its own.
    names = [name for name in LENSES.names() if name != "causal"]
    named = re.findall(rf"\b({'|'.join(names)})\b", path.read_text(encoding="utf-8"), re.IGNORECASE)
    assert named == []


@pytest.mark.parametrize("name", PLOTS.names())
def test_a_plot_stands_in_the_folder_of_its_lens(name: str) -> None:
    assert (ROOT / PLOTS.load(name).lens / f"{name}.py").is_file()


def test_every_folder_declares_its_title() -> None:
    for name in LENSES.names():
        assert isinstance(TITLES.load(name).explained, str)
        tree = ast.parse((ROOT / name / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(tree)
