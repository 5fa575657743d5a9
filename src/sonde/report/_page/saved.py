"""Charts and tables as files beside the page: SVG, PDF and PNG, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sonde.report._drawing.render import write_figures
from sonde.report._page.export import write_table
from sonde.report._shared.plot import Section


def save_sections(folder: Path, sections: Sequence[Section], note: Callable[[str], None]) -> list[Path]:
    """Write every chart, drawing and table of some sections.

    Args:
        folder: Where to.
        sections: What is written.
        note: Takes a line for each figure that could not be drawn.

    Returns:
        The files.

    Raises:
        StoreError: A file cannot be written.
    """
    files: list[Path] = []
    for section in sections:
        if section.figure.table:
            files += write_table(folder / section.name, section.figure.table)
        written, failed = write_figures(folder, [*section.figure.charts, *section.figure.drawings])
        files += written
        for line in failed:
            note(line)
    return files
