"""All numbers of a lens as a table: dimensions as columns, the controls of each number beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.report._shared.numbers import score_cells
from sonde.report._shared.plot import Cell, Table
from sonde.report._shared.run import RunData
from sonde.results.findings import (
    PLACES,
    QUALIFIERS,
    Controls,
    answering,
    control_words,
    controls_of,
    place_of,
)
from sonde.results.words import digits_of, plain_words

TABLE_ROWS = 2000
"""Rows that are embedded; the file of scores has all of them."""

DIMENSIONS = 8
"""Dimensions that have a column each; further ones share one."""

CONTROL_WORDS = (
    "A control is what the same question gives without the model, or without its training: a tick or a "
    "dashed line in the chart, and beside its number in the table."
)

Row = Mapping[str, Any]
_Column = tuple[str, Callable[[Row], Cell], bool]


def table(run: RunData, rows: pl.DataFrame) -> Table:
    """A row a number; a control that answers to no number of the model is a row of its own.

    Args:
        run: The run.
        rows: Scores of one lens, with ``shown``.
    """
    listed = rows.to_dicts()
    beside = controls_of(listed)
    places = {place_of(row) for row in listed if row["control"] is None}
    kept = [row for row in listed if row["control"] is None or place_of(row) not in places]
    columns = [*_said(run, kept), *_named(kept)]
    ends = ["Value", "95 % interval", "n", "Clusters"]
    with_controls = bool(beside)
    headings = [heading for heading, _, _ in columns] + ends + (["Control"] if with_controls else [])
    return Table(
        summary=_summary(kept),
        columns=headings,
        rows=[
            [
                *(cell(row) for _, cell, _ in columns),
                *score_cells(row, 1.0, digits_of(row)),
                *([Cell(_controls(row, beside))] if with_controls else []),
            ]
            for row in kept[:TABLE_ROWS]
        ],
        numeric=frozenset([*ends, *(heading for heading, _, numeric in columns if numeric)]),
    )


def _summary(rows: Sequence[Row]) -> str:
    if len(rows) <= TABLE_ROWS:
        return f"Every number: {len(rows):,} row{'s' * (len(rows) != 1)}"
    return f"The first {TABLE_ROWS:,} of {len(rows):,} numbers; scores.parquet has all of them"


def _controls(row: Row, beside: Controls) -> str:
    if row["control"] is not None:
        return f"of {plain_words(row['control'])}"
    return "; ".join(control_words(one) for one in answering(beside, row))


def _said(run: RunData, rows: Sequence[Row]) -> list[_Column]:
    """Columns of the scores that tell these numbers apart; the metric always."""
    several = {"shown": run.several, "language": len(run.languages) > 1, "metric": True}
    found: list[_Column] = []
    for name in ("metric", "shown", "language", *(one for one in QUALIFIERS if one != "metric"), *PLACES):
        values = {row[name] for row in rows}
        if several.get(
            name, bool(values - {None, ""}) and (len(values) > 1 or name in ("task", "layer", "head"))
        ):
            heading = "Model" if name == "shown" else plain_words(name).capitalize()
            found.append((heading, _plain(name), name in ("layer", "head", "k")))
    return found


def _plain(name: str) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        value = row[name]
        if value is None:
            return Cell("")
        return Cell(str(value), value) if isinstance(value, int) else Cell(plain_words(value))

    return cell


def _named(rows: Sequence[Row]) -> list[_Column]:
    """A column a dimension; those beyond `DIMENSIONS` share the last one."""
    names = list(dict.fromkeys(one["name"] for row in rows for one in row["dimensions"]))
    taken = {"metric", "model", "language", *QUALIFIERS, *PLACES, "value", "n", "clusters", "control"}
    found: list[_Column] = []
    for place, name in enumerate(names[:DIMENSIONS]):
        heading = plain_words(name)
        # Headings are told apart by their text.
        heading = heading if name not in taken and heading else f"{heading} (dimension {place + 1})"
        taken.add(name)
        found.append((heading[:1].upper() + heading[1:], _dimension(name), False))
    if rest := names[DIMENSIONS:]:
        found.append(("Further dimensions", _rest(rest), False))
    return found


def _dimension(name: str) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        text = next((one["value"] for one in row["dimensions"] if one["name"] == name), "")
        return Cell(plain_words(text), _order(text))

    return cell


def _rest(names: Sequence[str]) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        held = (one for one in row["dimensions"] if one["name"] in names)
        return Cell(", ".join(f"{plain_words(one['name'])} {plain_words(one['value'])}" for one in held))

    return cell


def _order(text: str) -> float | None:
    """The number that a value is, so that 10 comes after 9."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
