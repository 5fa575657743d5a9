"""Write the last part of the page on tasks, below what `python -m bench baselines` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sonde.languages import list_corpora

DOCS = Path(__file__).parents[1]


def render_page() -> str:
    """Return the measured page, joined with what artefacts and local cues reach."""
    artefacts, text = (
        (DOCS / f"{name}.template.md").read_text(encoding="utf-8") for name in ("artefacts", "local-cues")
    )
    page = (DOCS / "tasks.md").read_text(encoding="utf-8").partition(artefacts.partition("\n")[0])[0]
    measured = json.loads((DOCS / "measured" / "cues.json").read_text(encoding="utf-8"))
    cells = {(cell["task"], cell["language"]): cell for cell in measured["cells"]}
    tasks, languages = ([*{key[place]: None for key in sorted(cells)}] for place in (0, 1))
    languages.sort()
    table = [f"| task | {' | '.join(languages)} |", f"|---|{'--:|' * len(languages)}"]
    table += [
        f"| `{task}` | {' | '.join(_cue_cell(cells[task, name]) for name in languages)} |" for task in tasks
    ]
    refused = [f"- {cell['why']}" for cell in cells.values() if cell["why"]]
    places = {
        "size": f"{measured['size']:,}",
        "functions": f"{measured['functions']:,}",
        "corpora": "; ".join(f"{name}: {_corpus(list_corpora(name)[0])}" for name in languages),
        "table": "\n".join([*table, *(["", "Without a data set there:", "", *refused] if refused else [])]),
    }
    return "\n\n".join(one.rstrip("\n") for one in (page, artefacts, text.format(**places))) + "\n"


def _corpus(name: str) -> str:
    """Name a corpus; of a list of packages with versions their number."""
    source, _, packages = name.partition(":")
    number = packages.count(",") + 1
    return f"{number} packages of `{source}`" if number > 3 else f"`{name}`"


def _cue_cell(cell: dict[str, Any]) -> str:
    if cell["why"]:
        return ""
    value, low, high = (100 * cell[end] for end in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}] {value - 100 / cell['classes']:+.0f}"
