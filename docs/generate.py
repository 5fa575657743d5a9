"""Write the pages of this folder that are generated from the code; `make docs` runs it, tests compare."""

import json
from pathlib import Path

from sonde.experiments.reference import options_page
from sonde.experiments.schema import experiment_schema
from sonde.results.glossary import glossary_page

PAGES = {
    "glossary.md": glossary_page,
    "options.md": options_page,
    "experiment.schema.json": lambda: json.dumps(experiment_schema(), indent=2) + "\n",
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        (Path(__file__).parent / name).write_text(text(), encoding="utf-8")
