"""The tables of a page as files for papers and spreadsheets: CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sonde.base.files import write_atomic
from sonde.results.tables import Table

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
    """Comma-separated values: numbers in the scale shown, an interval as two columns."""
    return table.frame().write_csv()


def as_latex(table: Table) -> str:
    """A ``tabular`` with rules of the booktabs package; every text is escaped."""
    alignment = "".join("r" if right else "l" for right in table.right)
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _line(table.titles),
        r"\midrule",
        *map(_line, table.texts()),
        r"\bottomrule",
        r"\end{tabular}",
        "",
    ]
    return "\n".join(lines)


def _line(texts: Sequence[str]) -> str:
    return (
        " & ".join("".join(_LATEX.get(character, character) for character in text) for text in texts) + r" \\"
    )
