"""Quirks are the papers' own: no lens knows one by name, and any package hands some over."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import polars as pl
import pytest

import sonde
from generators.paper_modes import FED
from sonde.lenses import LENSES, LensSettings
from sonde.lenses.engine.lens import Quirk, get_active_quirks, get_paper_presets
from sonde.lenses.surprisal.observe import CALLS, FIRST_UNSCORED, PADS
from sonde.papers.quirks import list_quirks
from sonde.tasks import get_ablations, get_quirk_lines
from sonde.tasks.engine.task import TASKS

ROOT = Path(sonde.__file__).parent
OUTSIDE_OF_PAPERS = [path for path in sorted(ROOT.rglob("*.py")) if ROOT / "papers" not in path.parents]
DECLARED = {one["name"]: one for one in list_quirks()}
SWITCHES = {FIRST_UNSCORED, PADS}
PAPERS = "|".join(sorted({name.partition(".")[0] for name in DECLARED}))


def handed_over() -> list[tuple[str, Quirk]]:
    lenses = [header.name for header in LENSES.headers()]
    return [(lens, quirk) for lens in lenses for one in get_paper_presets(lens) for quirk in one.quirks]


def test_nothing_but_switches_is_named_outside_of_the_papers() -> None:
    ablations = {name for header in TASKS.headers() for name in get_ablations(TASKS.load(header.name))}
    named: set[str] = set()
    for module in OUTSIDE_OF_PAPERS:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= set(re.findall(rf"\b(?:{PAPERS})\.[a-z]\w*", node.value))
    assert named & DECLARED.keys() == SWITCHES
    assert named - DECLARED.keys() == ablations


def test_what_changes_observations_scores_or_training_stands_at_a_seam() -> None:
    for lens, quirk in handed_over():
        changes = DECLARED[quirk.name]["changes"]
        assert DECLARED[quirk.name]["lens"] == lens
        if changes == "labels":
            assert quirk.published is None, "labels are a task's"
        elif changes == FED:
            assert (quirk.published is None) == (quirk.name in SWITCHES)
        else:
            assert quirk.published is not None, quirk.name
    assert {quirk.name for _, quirk in handed_over()} == {
        name for name, one in DECLARED.items() if "lens" in one
    }


def test_the_text_of_a_quirk_is_that_of_its_paper() -> None:
    texts: dict[str, set[str]] = {}
    for one in list_quirks():
        texts.setdefault(one["name"], set()).add(one["published"])
    lines = [*[LENSES.load(header.name).quirks for header in LENSES.headers()]]
    lines += [get_quirk_lines(TASKS.load(header.name)) for header in TASKS.headers()]
    for held in lines:
        for name, line in held.items():
            assert line in texts[name]


QUIRKS = """
import polars as pl
from sonde.lenses.engine.lens import PaperPreset, Quirk
from sonde.lenses.surprisal.observe import CALLS

def nothing_is_local(calls):
    return calls.filter(pl.col("label") != "local")

published = PaperPreset((Quirk("theirs.no_local", "nothing is local", CALLS.quirk(nothing_is_local)),))
"""


def test_an_installed_package_hands_over_quirks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(QUIRKS)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sonde.lenses.quirks]\nsurprisal.theirs = theirs:published\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    assert LENSES.load("surprisal").quirks["theirs.no_local"] == "nothing is local"
    named = LensSettings(quirks=frozenset({"theirs.no_local"}))
    calls = pl.DataFrame({"label": ["local", "external"], "call_form": ["bare", "bare"]})
    assert CALLS.resolve(named, calls)["label"].to_list() == ["external"]
    assert CALLS.resolve(LensSettings(), calls) is calls
    assert "theirs.no_local" in {
        quirk.name for quirk in get_active_quirks("surprisal", LensSettings(mode="paper"))
    }
    assert "theirs.no_local" not in LENSES.load("attention").quirks
