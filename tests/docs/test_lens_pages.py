"""Every lens has a page: its question, a command that can be given, what came of it, and how to read that."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer.main

from examples import COMMAND, LINES, MEASURED, OUTPUT, PICTURE, shorten
from sonde.cli.commands import app
from sonde.lenses import LENSES
from sonde.report import PLOTS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCS / "lenses").glob("*.md"))}
MEASURED_RUNS: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
LARGEST = 100_000
"""Bytes of a picture."""


def test_every_lens_has_a_page_in_the_navigation() -> None:
    assert PAGES.keys() == set(LENSES.names())
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert [lens for lens in PAGES if f": lenses/{lens}.md\n" not in navigation] == []


@pytest.mark.parametrize("lens", PAGES)
def test_a_page_asks_a_question_and_says_how_to_read_the_answer(lens: str) -> None:
    assert re.match(r"# [^\n]+\n\n\*\*[^*]+\?\*\* ", PAGES[lens])
    assert re.findall(r"^## (.+)$", PAGES[lens], re.MULTILINE) == [
        "One command",
        "How to read it",
        "Pitfalls",
    ]


@pytest.mark.parametrize("lens", PAGES)
def test_the_command_of_a_page_can_be_given(lens: str) -> None:
    (command,) = COMMAND.findall(PAGES[lens])
    group: Any = typer.main.get_command(app)
    given = group.commands["run"].make_context("run", shlex.split(command.replace("\\\n", ""))[2:]).params
    assert given["lenses"] == [lens] and given["corpora"] == ["stdlib"]


@pytest.mark.parametrize("lens", PAGES)
def test_a_page_shows_what_its_command_printed(lens: str) -> None:
    run = MEASURED_RUNS[lens]
    assert run["command"] == COMMAND.findall(PAGES[lens])[0].replace("\\\n", ""), "run docs/examples.py"
    assert run["output"] == OUTPUT.findall(PAGES[lens])[0].split("\n"), "run docs/examples.py"
    assert run["output"][0].startswith(lens)


@pytest.mark.parametrize("lens", PAGES)
def test_pictures_are_small_and_of_a_plot_of_the_lens(lens: str) -> None:
    pictures = PICTURE.findall(PAGES[lens])
    assert pictures
    assert len(re.findall(r"!\[[^\]]{20,}\]\(", PAGES[lens])) == len(pictures)
    for path, plot, _ in pictures:
        assert PLOTS.load(plot).lens == lens
        assert (DOCS / path).stat().st_size < LARGEST
        ElementTree.parse(DOCS / path)


def test_every_picture_is_on_a_page() -> None:
    shown = {path for page in PAGES.values() for path, _, _ in PICTURE.findall(page)}
    assert shown == {path.relative_to(DOCS).as_posix() for path in (DOCS / "images/lenses").iterdir()}


def test_what_a_run_prints_about_its_files_is_left_out() -> None:
    lines = [f"line {number}" for number in range(LINES + 5)]
    files = ["", "3 items observed, 4 taken from the store", "report: runs/x/report.html"]
    assert shorten("\n".join([*lines[:3], *files])) == "line 0\nline 1\nline 2"
    assert shorten("\n".join([*lines, *files])).splitlines()[-1] == "... (5 more lines)"
    # The site wraps lines, each with an indent of its own, at any width.
    assert shorten("word " * 100 + "\n  next") == " ".join(["word"] * 100) + "\n  next"
