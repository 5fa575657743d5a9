"""The measure of names, docstrings and size: what it counts in a module made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.plain import (
    BARS,
    CLOSED,
    ENDING,
    FILES,
    LINES,
    MODULE,
    PARTICIPLE,
    QUESTION,
    STATEMENTS,
    VERB,
    X_OF,
    main,
    measure,
)

MODULE_TEXT = '''"""What it is."""
import ast


def rows_of(one, held):  # rows
    """Return rows."""
    each = one

    return each, held


def rows_kept(names):
    """Whether rows are kept."""
    return names
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "package" / "tests").mkdir(parents=True)
    (tmp_path / "package" / "found.py").write_text(MODULE_TEXT)
    (tmp_path / "package" / "tests" / "test_it.py").write_text(MODULE_TEXT)
    return tmp_path / "package"


def test_every_kind_of_name_and_docstring_is_counted(folder: Path) -> None:
    result = measure([folder])
    figures = result.get_figures()
    assert figures.keys() == BARS.keys()
    assert [place.rpartition(": ")[2] for place in result.places[CLOSED]] == ["one", "each"]
    assert figures[CLOSED] == pytest.approx(1000 * 2 / 4)
    assert figures[PARTICIPLE] == pytest.approx(1000 * 1 / 4)
    assert (figures[X_OF], figures[ENDING]) == (50, 50)
    assert figures[MODULE] == 1
    assert figures[QUESTION] == pytest.approx(100 * 2 / 3)
    assert figures[VERB] == 50
    assert (figures[STATEMENTS], figures[LINES], figures[FILES]) == (5, 5, 1)


def test_a_missed_bar_fails_only_where_it_is_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder)]) == 0
    assert main([str(folder), "--check", "--list"]) == 1
    assert "found.py:5: rows_of" in capsys.readouterr().out
