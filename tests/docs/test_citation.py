"""The citation file names the version at hand and the five systems, and agrees with the page about citing."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import sonde

ROOT = Path(__file__).parents[2]
TYPES = {"article", "conference-paper"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_file_has_what_the_format_requires(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert citation["type"] == "software" and citation["license"] == "Apache-2.0"
    assert citation["version"] == sonde.__version__


def test_every_reference_is_whole(citation: dict[str, Any]) -> None:
    for reference in citation["references"]:
        assert reference["type"] in TYPES and reference["title"] and isinstance(reference["year"], int)
        assert all({"family-names", "given-names"} == author.keys() for author in reference["authors"])


def test_the_page_about_citing_names_the_same_papers(citation: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")
    for reference in citation["references"]:
        assert reference.get("doi", reference.get("url")) in page
        assert all(author["family-names"] in page for author in reference["authors"])
