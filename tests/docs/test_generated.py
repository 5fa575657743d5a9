"""Pages that are generated from the code are those in the folder, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generate import PAGES
from sonde.experiments.catalogue import lens_options, run_options
from sonde.lenses import LENSES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_a_generated_page_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


def test_every_module_beside_the_pages_writes_one() -> None:
    written = {path.stem for path in (DOCS / "generators").glob("*.py")} - {"__init__", "markdown"}
    pages = [page for page in PAGES if not page.startswith(("../", "gallery/", "replication"))]
    assert written == {re.sub(r"\W", "_", Path(page).stem) for page in pages} - {"card_schema"}


def test_the_page_names_every_option() -> None:
    text = (DOCS / "options.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    named = [set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) for section in sections]
    lenses = [{one.name for one in lens_options(name)} for name in LENSES.names()]
    run = {one.name.rpartition(".")[2] for one in run_options()}
    assert named[4:] == lenses and set().union(*named[:4]) == run
