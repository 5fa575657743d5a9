"""Write the pages of this folder that are generated from the code; `make docs` runs it, tests compare."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from generators import (
    checkpoints,
    experiment_schema,
    files,
    gallery,
    glossary,
    languages,
    metrics,
    options,
    packages,
    paper_modes,
    performance,
    real_models,
    tasks,
)
from sonde.report import card_schema

DOCS = Path(__file__).parent

PAGES: Mapping[str, Callable[[], str]] = {
    "tasks.md": tasks.render_page,
    "checkpoints.md": checkpoints.render_page,
    "performance.md": performance.render_page,
    "glossary.md": glossary.render_page,
    "metrics.md": metrics.render_page,
    "files.md": files.render_page,
    "gallery.md": gallery.render_page,
    **gallery.PAGES,
    "studies/real-models.md": real_models.render_page,
    "replication.md": real_models.render_replication,
    "../README.md": gallery.render_readme,
    "languages.md": languages.render_page,
    "options.md": options.render_page,
    "paper-modes.md": paper_modes.render_page,
    "images/packages.svg": packages.render_image,
    "experiment.schema.json": lambda: json.dumps(experiment_schema.build_schema(), indent=2) + "\n",
    "card.schema.json": lambda: json.dumps(card_schema(), indent=2) + "\n",
}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), encoding="utf-8")
