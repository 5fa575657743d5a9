"""What may enter a figure: text that every drawing program can take, and no text in an expression.

Names in a figure are pieces of the code under study, so they can be anything. Two things end a drawing: signs
that XML does not allow abort the process that draws, and Vega-Lite turns a list of names to sort by into an
expression, where Vega takes the text ``if`` for its function.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from sonde.report._shared.plot import Figure
from sonde.results.formats import legible
from sonde.results.tables import Table

T = TypeVar("T")

# What Vega's parser of expressions takes for its function even as a text, and what every object of JavaScript
# has, so that a table of names by Vega finds it there.
_TAKEN = {
    "if", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__",
    "__lookupSetter__",
}  # fmt: skip


def cleaned(figure: Figure) -> Figure:
    """A figure whose every text is legible, and whose charts hold none of it in an expression."""
    figure = _each(figure, legible)
    charts = [dataclasses.replace(chart, spec=ranked(_each(chart.spec, untaken))) for chart in figure.charts]
    return dataclasses.replace(figure, charts=charts)


def untaken(text: str) -> str:
    """A name that neither JavaScript nor Vega takes for its own: a blank behind it is not seen.

    >>> untaken("if"), untaken("iffy")
    ('if ', 'iffy')
    """
    return f"{text} " if text in _TAKEN else text


def _each(value: T, change: Callable[[str], str]) -> T:
    """A value with every text in it changed; numbers and the like stay."""
    # Most of what a figure holds are plain numbers and texts, hundreds of thousands of them.
    kind: type = type(value)
    if kind is int or kind is float or value is None or kind is bool:
        return value
    made: Any = value
    if kind is str:
        made = change(cast("str", value))
    elif isinstance(value, Table):
        return value  # Its columns make every text legible, and look things up by texts as they were.
    elif isinstance(value, str):
        made = change(value)
    elif isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        made = {_each(key, change): _each(one, change) for key, one in held.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(_each(one, change) for one in cast("list[Any]", value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        made = dataclasses.replace(value, **{name: _each(getattr(value, name), change) for name in names})
    return made


def ranked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification whose channels are sorted by a column of ranks where they had a list of names.

    Vega-Lite writes such a list into an expression; a column of numbers gives the same order.
    """
    return _Ranks().of(spec, None)


class _Ranks:
    """Adds the columns; a list that several channels share is one column."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, tuple[Any, ...]], str] = {}
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def of(self, view: Mapping[str, Any], rows: list[dict[str, Any]] | None) -> dict[str, Any]:
        """A view and those inside it, whose data are their own or else those of the view around them."""
        data = view.get("data")
        made = dict(view)
        if isinstance(data, Mapping) and "values" in data:
            # Layers that share their rows go on sharing them, since each is written into the page.
            values = cast("list[dict[str, Any]]", data["values"])
            rows = self._rows.setdefault(id(values), [dict(row) for row in values])
            made["data"] = {**data, "values": rows}
        for name, value in view.items():
            if name == "encoding":
                made[name] = {channel: self._channel(one, rows) for channel, one in value.items()}
            elif name in ("layer", "concat", "hconcat", "vconcat"):
                made[name] = [self.of(one, rows) for one in value]
            elif name == "spec":
                made[name] = self.of(value, rows)
        return made

    def _channel(self, channel: Any, rows: list[dict[str, Any]] | None) -> Any:
        if isinstance(channel, list):
            return [self._channel(one, rows) for one in cast("list[Any]", channel)]
        if not isinstance(channel, Mapping):
            return channel
        made: dict[str, Any] = dict(cast("Mapping[str, Any]", channel))
        if isinstance(made.get("sort"), list) and rows is not None:
            made["sort"] = {"field": self._column(made["field"], made["sort"], rows), "op": "min"}
        return made

    def _column(self, field: str, order: list[Any], rows: list[dict[str, Any]]) -> str:
        column = self._columns.setdefault((field, tuple(order)), f"rank_{len(self._columns)}")
        place = {name: number for number, name in enumerate(order)}
        for row in rows:
            row[column] = place.get(row.get(field), len(order))
        return column
