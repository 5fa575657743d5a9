"""The tables of a page as files for papers and spreadsheets: CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from sonde.base.files import write_atomic
from sonde.report._shared.numbers import DASH
from sonde.report._shared.plot import Table

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "→": r"$\rightarrow$",
}


def write_table(stem: Path, table: Table) -> list[Path]:
    """Write a table as ``<stem>.csv`` and ``<stem>.tex``.

    Raises:
        StoreError: A file cannot be written.
    """
    paths = [stem.with_name(stem.name + suffix) for suffix in (".csv", ".tex")]
    write_atomic(paths[0], as_csv(table))
    write_atomic(paths[1], as_latex(table))
    return paths


def as_csv(table: Table) -> str:
    """Comma-separated values as the page shows them, in signs that a program reads."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        cells = zip(table.columns, row, strict=True)
        writer.writerow(_plain(cell.text) if name in table.numeric else cell.text for name, cell in cells)
    return buffer.getvalue()


def _plain(text: str) -> str:
    if text == DASH:
        return ""
    if text.startswith("["):
        return text.replace("−", "-")
    return text.replace("−", "-").replace(",", "")


def as_latex(table: Table) -> str:
    """A ``tabular`` with rules of the booktabs package; every text is escaped."""
    alignment = "".join("r" if name in table.numeric else "l" for name in table.columns)
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _line(table.columns),
        r"\midrule",
        *(_line([cell.text for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        "",
    ]
    return "\n".join(lines)


def _line(texts: Sequence[str]) -> str:
    return (
        " & ".join("".join(_LATEX.get(character, character) for character in text) for text in texts) + r" \\"
    )
