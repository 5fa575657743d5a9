r"""Declarative tables: columns define what is shown; page, CSV, LaTeX and terminal render the same table.

A plot or a command gives records and columns; nobody writes a cell by hand.

>>> from sonde.results.text_format import WithInterval
>>> rows = [{"model": "a", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 1200}]
>>> table = Table(
...     summary="Accuracy",
...     columns=[
...         Column(title="Model", value="model"),
...         Column(title="Accuracy, %", format=WithInterval(digits=1, scale=100)),
...         Column(title="n", value="n", format=COUNT),
...     ],
...     rows=rows,
... )
>>> print(*table.lines(), sep="\n")
Model        Accuracy, %      n
a      50.0 [40.0, 60.0]  1,200
>>> table.frame().row(0)
('a', 50.0, 40.0, 60.0, 1200)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.formatting import align_cells, legible, plural
from sonde.results.text_format import (
    COUNT,
    TEXT,
    CellValue,
    ClusterCount,
    Format,
    Interval,
    Number,
    Row,
    verdict_mark,
)

VISIBLE_BREAKS = {"\n": "\u21b5", "\r": "\u240d", "\t": "\u2192"}
"""Signs for line breaks and tabulators."""


_SHOW_BREAKS = str.maketrans(VISIBLE_BREAKS)


def identity(row: Row) -> Row:
    """Return the row itself, for formats that take a score with its interval or clusters."""
    return row


@dataclass(frozen=True, slots=True)
class Cell:
    """A formatted value: text, sort key (None: by text), and values for programs."""

    text: str
    order: float | None
    plain: tuple[CellValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its heading.
        value: Key of the value in a row, or a function of the row; by default the row itself, whose
            ``value``, interval or clusters the format takes. None is a missing value.
        format: Format of the values, or a function of the row that returns it; its type is the same for all
            rows, its decimals and scale need not be.
        help: One line in plain words, shown on hover by the page alone.
        order: Key or function for the number by which rows are sorted, where the format has none.
    """

    title: str
    value: str | Callable[[Row], Any] = identity
    format: Format | Callable[[Row], Format] = TEXT
    help: str = ""
    order: str | Callable[[Row], float | None] | None = None

    def cell(self, row: Row) -> Cell:
        """Format the cell of a row."""
        format = self.format if isinstance(self.format, Format) else self.format(row)
        value = _get_value(row, self.value)
        order = None if self.order is None else _get_value(row, self.order)
        if value is None:
            return Cell(format.missing, order, (None,) * len(format.parts))
        return Cell(
            legible(format.text(value)),
            format.order(value) if self.order is None else order,
            format.plain(value),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        summary: Description, shown before the table is opened.
        columns: The columns.
        rows: Records in their first order.
    """

    summary: str
    columns: Sequence[Column]
    rows: Sequence[Row] | pl.DataFrame

    @property
    def titles(self) -> list[str]:
        """Return the headings."""
        return [legible(column.title) for column in self.columns]

    @property
    def right(self) -> list[bool]:
        """Return which columns are right-aligned: those of numbers."""
        return [form.right for form in self.formats()]

    def cells(self) -> list[list[Cell]]:
        """Return every cell, row by row."""
        return [[column.cell(row) for column in self.columns] for row in self.records()]

    def texts(self) -> list[list[str]]:
        """Return every text, row by row."""
        return [[cell.text for cell in row] for row in self.cells()]

    def visible_texts(self) -> list[list[str]]:
        """Return every text, row by row, in one line each: line breaks are shown by a sign."""
        return [[text.translate(_SHOW_BREAKS) for text in row] for row in self.texts()]

    def frame(self) -> pl.DataFrame:
        """Convert to a table for programs: numbers in the scale shown, an interval as two columns."""
        cells = self.cells()
        series: dict[str, pl.Series] = {}
        for index, (title, form) in enumerate(zip(self.titles, self.formats(), strict=True)):
            for part, (suffix, kind) in enumerate(form.parts.items()):
                name = _unique_name(f"{title}{suffix}", series)
                values = [row[index].plain[part] for row in cells]
                series[name] = pl.Series(name, values, kind)
        return pl.DataFrame(list(series.values()))

    def lines(self, *, header: bool = True, indent: int = 0) -> list[str]:
        """Format as aligned lines for a terminal; line breaks in a cell are shown, never obeyed.

        Args:
            header: Whether the headings are the first line.
            indent: Blanks before each line.
        """
        titles = [title.translate(_SHOW_BREAKS) for title in self.titles]
        rows = [*([titles] if header else []), *self.visible_texts()]
        return [" " * indent + line for line in align_cells(rows, self.right)]

    def records(self) -> Sequence[Row]:
        """Return the rows as mappings."""
        return self.rows.to_dicts() if isinstance(self.rows, pl.DataFrame) else self.rows

    def formats(self) -> list[Format]:
        """Return the format of each column; of one that depends on the row, that of the first."""
        first = next(iter(self.records()), None)
        formats: list[Format] = []
        for column in self.columns:
            if isinstance(column.format, Format):
                formats.append(column.format)
            else:
                formats.append(TEXT if first is None else column.format(first))
        return formats


def _get_value(row: Row, value: str | Callable[[Row], Any]) -> Any:
    return row[value] if isinstance(value, str) else value(row)


def _unique_name(name: str, existing: dict[str, pl.Series]) -> str:
    """Return a name that no column has yet: headings may repeat, columns of a frame may not."""
    candidate, number = name, 1
    while candidate in existing:
        number += 1
        candidate = f"{name} ({number})"
    return candidate


MODEL = Column(title="Model", value="shown", help="The language model, by the last part of its name.")
LANGUAGE = Column(
    title="Language",
    value=lambda row: row["language"] or None,
    help="The programming language of the code that was read.",
)
N = Column(title="n", value="n", format=COUNT, help="Observations that the value is taken over.")
CONTROL = Column(
    title="Control",
    value=lambda row: (row["control"] or "").replace("_", " ") or None,
    help="The baseline that the value is compared with; it knows less than the model.",
)
CLUSTERS = Column(
    title="Clusters",
    format=ClusterCount(),
    help="Independent groups of code, such as repositories or libraries, and their effective number "
    "(Kish); too few allow no verdict.",
)


def estimate_columns(
    title: str,
    digits: int | Callable[[Row], int] = 2,
    scale: float | Callable[[Row], float] = 1.0,
    *,
    key: str | Callable[[Row], Any] = identity,
    interval: str = "95 % interval",
    help: str = "",
) -> tuple[Column, Column]:
    """Build two columns: the value of a score and its interval.

    Args:
        title: Heading of the value, with its unit.
        digits: Decimals, or a function of the row that returns them.
        scale: Factor of both, or a function of the row that returns it.
        key: Key of the score in a row; by default the row is the score.
        interval: Heading of the interval.
        help: Description of the value, in plain words.
    """

    def form(kind: type[Number]) -> Format | Callable[[Row], Format]:
        if not callable(digits) and not callable(scale):
            return kind(digits=digits, scale=scale)
        return lambda row: kind(
            digits=digits(row) if callable(digits) else digits,
            scale=scale(row) if callable(scale) else scale,
        )

    return (
        Column(title=title, value=key, format=form(Number), help=help),
        Column(
            title=interval,
            value=key,
            format=form(Interval),
            help="The 95 % confidence interval; observations of one cluster do not count as independent.",
        ),
    )


def score_columns(
    title: str,
    digits: int | Callable[[Row], int] = 2,
    scale: float | Callable[[Row], float] = 1.0,
    *,
    n: str = "n",
    clusters: str = "Clusters",
    help: str = "",
) -> tuple[Column, ...]:
    """Build the standard columns of a score: value, interval, n and clusters.

    Args:
        title: Heading of the value, with its unit.
        digits: Decimals, or a function of the row that returns them.
        scale: Factor of value and interval, or a function of the row that returns it.
        n: Heading of the number of observations.
        clusters: Heading of the clusters.
        help: Description of the value, in plain words.
    """
    return (*estimate_columns(title, digits, scale, help=help), *size_columns(n, clusters))


def size_columns(n: str = "n", clusters: str = "Clusters") -> tuple[Column, Column]:
    """Build the columns of observations and clusters, with other headings."""
    return dataclasses.replace(N, title=n), dataclasses.replace(CLUSTERS, title=clusters)


def sample_size_column(counted: str, cluster: str) -> Column:
    """Build the terminal's column of the sample size: ``n = 120 queries, 8 clusters †``.

    Args:
        counted: Singular noun of what ``n`` counts.
        cluster: Singular noun of a cluster.
    """
    return Column(
        title="Rests on",
        value=lambda row: (
            f"n = {plural(row['n'], counted)}, {plural(row['n_clusters'], cluster)}{verdict_mark(row)}"
        ),
    )
