"""Write the pages of this folder that are generated from the code; `make docs` runs it, tests compare."""

import importlib
import json
import re
from pathlib import Path

from sonde.experiments.reference import options_page
from sonde.experiments.schema import experiment_schema
from sonde.papers.modes import modes_page
from sonde.report import card_schema
from sonde.results.columns import markdown_table
from sonde.results.glossary import glossary_page

DOCS = Path(__file__).parent


def files_page() -> str:
    """The template with a table in the place of each line ``{table: MODULE.COLUMNS}``."""
    text = (DOCS / "files.template.md").read_text(encoding="utf-8")
    return re.sub(r"^\{table: (.+)\.(\w+)\}$", _table, text, flags=re.MULTILINE)


def _table(named: re.Match[str]) -> str:
    return markdown_table(getattr(importlib.import_module(named[1]), named[2]))


PAGES = {
    "glossary.md": glossary_page,
    "files.md": files_page,
    "options.md": options_page,
    "paper-modes.md": modes_page,
    "experiment.schema.json": lambda: json.dumps(experiment_schema(), indent=2) + "\n",
    "card.schema.json": lambda: json.dumps(card_schema(), indent=2) + "\n",
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        (DOCS / name).write_text(text(), encoding="utf-8")
