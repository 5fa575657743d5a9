"""Every test has one tier: what decides it, what is refused, and that the table is of what there is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.tiers import PLACES, ROOT, TIERS, get_tier


def test_every_tier_has_places_and_a_row_of_the_page() -> None:
    assert PLACES.keys() == TIERS.keys()
    page = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [tier for tier in TIERS if f"| {tier} |" not in page] == []


def test_every_place_is_there_and_in_one_tier() -> None:
    places = [place for several in PLACES.values() for place in several]
    assert len(set(places)) == len(places)
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    ("path", "marked", "tier"),
    [
        ("tasks/test_new.py", [], "unit"),
        ("golden/test_new.py", [], "golden"),
        ("experiments/test_new.py", [], "end_to_end"),
        ("experiments/test_forecast.py", [], "unit"),
        ("recomputed/deeper/test_new.py", [], "referee"),
        ("docs/test_new.py", ["end_to_end"], "end_to_end"),
        ("elsewhere/test_new.py", ["golden"], "golden"),
    ],
)
def test_a_mark_decides_before_a_file_and_a_file_before_its_folder(
    path: str, marked: list[str], tier: str
) -> None:
    assert get_tier(PurePosixPath(path), marked) == tier


@pytest.mark.parametrize(
    ("path", "marked", "said"),
    [
        ("elsewhere/test_new.py", [], "has no tier; name its folder or the file"),
        ("lenses/test_new.py", ["golden", "unit"], "marked as golden and unit; a test has one tier"),
    ],
)
def test_no_tier_or_two_are_refused(path: str, marked: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        get_tier(PurePosixPath(path), marked)


def collect(folder: Path, *options: str) -> str:
    """Return what is said of three files, collected with the settings and the conftest of these tests."""
    for name in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/tiers.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT.parent / name, folder / name)
    for place in ("golden", "lenses", "elsewhere"):
        (folder / "tests" / place).mkdir()
        (folder / "tests" / place / f"test_{place}.py").write_text("def test_it(): pass\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_test_without_a_tier_ends_the_collection(tmp_path: Path) -> None:
    said = collect(tmp_path)
    assert "tests/elsewhere/test_elsewhere.py has no tier" in said and "1 error" in said


def test_tests_are_selected_by_their_tier(tmp_path: Path) -> None:
    said = collect(tmp_path, "-m", "golden", "--ignore", "tests/elsewhere")
    assert "test_golden.py::test_it" in said and "test_lenses.py" not in said
