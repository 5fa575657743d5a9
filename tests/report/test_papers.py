"""The papers that methods are from: every lens names entries that are there and are whole."""

from __future__ import annotations

import re

import pytest

from sonde.report.comparison_page import CITATIONS
from sonde.report.headlines import TITLES
from sonde.report.text import format_bibtex, format_reference, load_references


@pytest.mark.parametrize("lens", TITLES.names())
def test_every_lens_names_its_papers(lens: str) -> None:
    cites = TITLES.load(lens).cites
    assert cites and set(cites) <= set(load_references())


def test_every_entry_is_whole_and_cited() -> None:
    cited = {key for lens in TITLES.names() for key in TITLES.load(lens).cites}
    assert cited | set(CITATIONS) == set(load_references())
    for key, entry in load_references().items():
        assert re.fullmatch(rf"@\w+\{{{key},\n(  \w+ = \{{.+\}},?\n)+\}}", entry)
        assert entry.count("{") == entry.count("}")
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) = ", entry, re.MULTILINE))


def test_references_and_entries_are_each_said_once() -> None:
    assert format_bibtex(["shen2022codesyntax", "shen2022codesyntax"]).count("@inproceedings") == 1
    assert format_reference("kanade2020cubert").startswith(
        "Aditya Kanade, Petros Maniatis, Gogul Balakrishnan and Kensen Shi (2020). Learning and Evaluating"
    )
