"""Write the page on known checkpoints, from the catalogue."""

from __future__ import annotations

from pathlib import Path

from sonde.base.formatting import format_parameters
from sonde.models import CELLS, Checkpoint, known_checkpoints

DOCS = Path(__file__).parents[1]


def render_page() -> str:
    """Return the template with the catalogue, each cell with a link to its source."""
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
    text = format_parameters(cell.value) if isinstance(cell.value, int) else cell.value
    return f"[{text}]({cell.source})" if cell.source.startswith("https://") else f"{text} ({cell.source})"
