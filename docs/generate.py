"""Write the pages of this folder that are generated from the code; `make docs` runs it, tests compare."""

import importlib
import json
import re
import statistics
from pathlib import Path
from typing import Any

from sonde.experiments.language_page import languages_page
from sonde.experiments.reference import options_page
from sonde.experiments.schema import experiment_schema
from sonde.languages import corpora_of
from sonde.models import CELLS, Checkpoint, known_checkpoints, size_text
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


def performance_page() -> str:
    """The template with the benchmarks that were measured last, from ``docs/measured/``."""
    page = (DOCS / "performance.template.md").read_text(encoding="utf-8")
    for name in ("processor", "accelerator"):
        found, places = _measured(name), dict[str, str]()
        rows = "".join(_figure(one, row, places) for one in found for row in one["rows"])
        machines = "".join(f"- **{letter}**: {place}\n" for place, letter in places.items())
        page = page.replace(f"{{{name}: figures}}\n", rows or "| none was at hand | | | | | |\n")
        page = page.replace(f"{{{name}: machines}}\n", machines)
    return page


def _measured(name: str) -> list[dict[str, Any]]:
    path = DOCS / "measured" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _figure(found: dict[str, Any], row: dict[str, Any], places: dict[str, str]) -> str:
    """A line of a table; where it was measured is a letter."""
    letter = places.setdefault(_place(found), chr(ord("A") + len(places)))
    values = row["values"]
    shown = f"{_digits(statistics.median(values))} {row['unit']}".strip()
    spread = f"{_digits(min(values))} to {_digits(max(values))}" if len(values) > 1 else ""
    target = "" if row["target"] is None else row["target"]
    return f"| {row['name']} | {shown} | {spread} | {target} | `{found['command']}` | {letter} |\n"


def _digits(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _place(found: dict[str, Any]) -> str:
    held = found["machine"]
    named = [held["accelerator"], held["processor"], f"{held['cores']} cores, {held['memory_gib']} GiB"]
    known = {"accelerator", "processor", "cores", "memory_gib"}
    named += [f"{name} {version}" for name, version in held.items() if name not in known and version]
    load = f"; load of the machine in the last quarter of an hour {found['load']}" if found["load"] else ""
    return f"{found['when']}, {', '.join(filter(None, named))}; rounds: {found['rounds']}{load}"


def checkpoints_page() -> str:
    """The template with the catalogue of known checkpoints, each cell with a link to its source."""
    page = (DOCS / "checkpoints.template.md").read_text(encoding="utf-8")
    rows = "".join(_checkpoint(one) for one in known_checkpoints())
    return page.replace("{checkpoints}\n", rows)


def _checkpoint(checkpoint: Checkpoint) -> str:
    cells = [_sourced(checkpoint, name) for name in CELLS]
    line = [f"`{checkpoint.name}`", checkpoint.family, *cells, "; ".join(checkpoint.papers)]
    return f"| {' | '.join(line)} |\n"


def _sourced(checkpoint: Checkpoint, name: str) -> str:
    cell = checkpoint.cells.get(name)
    if cell is None:
        return ""
    text = size_text(cell.value) if isinstance(cell.value, int) else cell.value
    return f"[{text}]({cell.source})" if cell.source.startswith("https://") else f"{text} ({cell.source})"


def tasks_page() -> str:
    """Join the page that `python -m bench baselines` wrote with what artefacts and local cues reach."""
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
        "corpora": "; ".join(f"{name}: {_corpus(corpora_of(name)[0])}" for name in languages),
        "table": "\n".join([*table, *(["", "Without a data set there:", "", *refused] if refused else [])]),
    }
    return "\n\n".join(one.rstrip("\n") for one in (page, artefacts, text.format(**places))) + "\n"


def _corpus(name: str) -> str:
    """A corpus by name; of a list of packages with versions their number."""
    source, _, packages = name.partition(":")
    number = packages.count(",") + 1
    return f"{number} packages of `{source}`" if number > 3 else f"`{name}`"


def _cue_cell(cell: dict[str, Any]) -> str:
    if cell["why"]:
        return ""
    value, low, high = (100 * cell[end] for end in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}] {value - 100 / cell['classes']:+.0f}"


PAGES = {
    "tasks.md": tasks_page,
    "checkpoints.md": checkpoints_page,
    "performance.md": performance_page,
    "glossary.md": glossary_page,
    "files.md": files_page,
    "languages.md": languages_page,
    "options.md": options_page,
    "paper-modes.md": modes_page,
    "experiment.schema.json": lambda: json.dumps(experiment_schema(), indent=2) + "\n",
    "card.schema.json": lambda: json.dumps(card_schema(), indent=2) + "\n",
}

if __name__ == "__main__":
    for name, text in PAGES.items():
        (DOCS / name).write_text(text(), encoding="utf-8")
