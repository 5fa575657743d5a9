"""All numbers of a lens as a table: dimensions as columns, the controls of each number beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import polars as pl

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
from sonde.results.formats import Count, Format, Row
from sonde.results.tables import CONTROL, Column, Table, scored
from sonde.results.words import digits_of, plain_words

TABLE_ROWS = 2000
"""Rows that are embedded; the file of scores has all of them."""

DIMENSIONS = 8
"""Dimensions that have a column each; further ones share one."""

CONTROL_WORDS = (
    "A control is what the same question gives without the model, or without its training: a tick or a "
    "dashed line in the chart, and beside its number in the table."
)

_TEXT, _WHOLE = Format(missing=""), Count(missing="")


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
    control = dataclasses.replace(CONTROL, value=_controlled(beside), format=_TEXT)
    return Table(
        summary=_summary(kept),
        columns=[
            *_qualifying(run, kept),
            *_named(kept),
            *scored("Value", digits=digits_of),
            *([control] if beside else []),
        ],
        rows=kept[:TABLE_ROWS],
    )


def _summary(rows: Sequence[Row]) -> str:
    if len(rows) <= TABLE_ROWS:
        return f"Every number: {len(rows):,} row{'s' * (len(rows) != 1)}"
    return f"The first {TABLE_ROWS:,} of {len(rows):,} numbers; scores.parquet has all of them"


def _controlled(beside: Controls) -> Callable[[Row], str]:
    """What the controls of a number give, or of a control's own row which one it is."""

    def controls(row: Row) -> str:
        if row["control"] is not None:
            return f"of {plain_words(row['control'])}"
        return "; ".join(control_words(one) for one in answering(beside, row))

    return controls


def _qualifying(run: RunData, rows: Sequence[Row]) -> list[Column]:
    """Columns of the scores that tell these numbers apart; the metric always."""
    several = {"shown": run.several, "language": len(run.languages) > 1, "metric": True}
    found: list[Column] = []
    for name in ("metric", "shown", "language", *(one for one in QUALIFIERS if one != "metric"), *PLACES):
        values = {row[name] for row in rows}
        if several.get(
            name, bool(values - {None, ""}) and (len(values) > 1 or name in ("task", "layer", "head"))
        ):
            title = "Model" if name == "shown" else plain_words(name).capitalize()
            whole = any(isinstance(value, int) for value in values)
            found.append(
                Column(title=title, value=name if whole else _plain(name), format=_WHOLE if whole else _TEXT)
            )
    return found


def _plain(name: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[name] is None else plain_words(row[name])


def _named(rows: Sequence[Row]) -> list[Column]:
    """A column a dimension; those beyond `DIMENSIONS` share the last one."""
    names = list(dict.fromkeys(one["name"] for row in rows for one in row["dimensions"]))
    taken = {"metric", "model", "language", *QUALIFIERS, *PLACES, "value", "n", "clusters", "control"}
    found: list[Column] = []
    for place, name in enumerate(names[:DIMENSIONS]):
        heading = plain_words(name)
        # Headings are told apart by their text.
        heading = heading if name not in taken and heading else f"{heading} (dimension {place + 1})"
        taken.add(name)
        title = heading[:1].upper() + heading[1:]
        found.append(Column(title=title, value=_dimension(name), format=_TEXT, order=_order(name)))
    if rest := names[DIMENSIONS:]:
        found.append(Column(title="Further dimensions", value=_rest(rest), format=_TEXT))
    return found


def _value(row: Row, name: str) -> str:
    return next((one["value"] for one in row["dimensions"] if one["name"] == name), "")


def _dimension(name: str) -> Callable[[Row], str]:
    return lambda row: plain_words(_value(row, name))


def _order(name: str) -> Callable[[Row], float | None]:
    """The number that a value is, so that 10 comes after 9."""

    def order(row: Row) -> float | None:
        text = _value(row, name)
        return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None

    return order


def _rest(names: Sequence[str]) -> Callable[[Row], str]:
    def rest(row: Row) -> str:
        held = (one for one in row["dimensions"] if one["name"] in names)
        return ", ".join(f"{plain_words(one['name'])} {plain_words(one['value'])}" for one in held)

    return rest
