"""How the report is laid out: a folder a lens, and no lens's name anywhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import sonde.report
from sonde.lenses import LENSES
from sonde.report import PLOTS, RunData, list_plots
from sonde.report.headlines import TITLES

ROOT = Path(sonde.report.__file__).parent
SHARED = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".j2") and "sections" not in path.parts]


def test_every_folder_of_sections_is_a_lens() -> None:
    folders = {path.parent.name for path in ROOT.glob("sections/*/__init__.py")}
    assert folders == set(LENSES.names())


def test_no_lens_is_named_in_what_all_share() -> None:
    # A causal model reads from left to right: of that lens's name the field makes a word of its own.
    names = "|".join(name for name in LENSES.names() if name != "causal")
    named = {
        path.relative_to(ROOT).as_posix(): found
        for path in SHARED
        if (found := re.findall(rf"\b({names})\b", path.read_text(encoding="utf-8"), re.IGNORECASE))
    }
    assert len(SHARED) > 10 and named == {}


def test_a_plot_stands_in_the_folder_of_its_lens() -> None:
    far = [
        name
        for name in PLOTS.names()
        if not (ROOT / "sections" / PLOTS.load(name).lens / f"{name}.py").is_file()
    ]
    assert len(PLOTS.names()) > 40 and far == []


def test_every_folder_declares_its_title() -> None:
    for name in LENSES.names():
        assert isinstance(TITLES.load(name).method_text, str)
        tree = ast.parse((ROOT / "sections" / name / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(tree)


def test_only_plots_of_the_lenses_of_a_run_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "observations" / "lens=cloze").mkdir(parents=True)
    (tmp_path / "scores" / "lens=causal.2").mkdir(parents=True)
    names = list_plots(RunData(tmp_path))
    assert {PLOTS.get_folder_name(name) for name in names} == {"cloze", "causal"}
    assert {name for name in PLOTS.names() if PLOTS.load(name).lens in ("cloze", "causal")} == set(names)
