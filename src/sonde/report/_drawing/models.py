"""Each model of a run has one colour on every chart, whichever of the models a chart shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from sonde.report._drawing.theme import KIND_RANGE
from sonde.report._shared.plot import Chart
from sonde.results.words import plain_words

_WHOSE = ("model", "subject", "line", "shown")
"""Columns of a chart's data that say whom a mark is about."""


def with_model_colours(chart: Chart, labels: Sequence[str], only: int = 0) -> Chart:
    """A chart whose colours stand for the models at their places in the run.

    Args:
        chart: The chart.
        labels: Names of the run's models as shown, in its order.
        only: Place of the model where the chart does not say whom it is about.
    """
    rows = list(_rows(chart.spec))
    told = [row[name] for row in rows for name in _WHOSE if isinstance(row.get(name), str)]
    places = {place for value in told if (place := _place(value, labels)) is not None}
    titled = next((place for place, label in enumerate(labels) if chart.title.endswith(f", {label}")), None)
    if len(places) == 1:
        model = places.pop()
    elif places:
        model = 0
    else:
        model = _place(chart.title.rpartition(", ")[2], labels) if titled is None else titled
        if model is None:
            model = next((at for at, label in enumerate(labels) if f", {label}, " in chart.title), only)
    return dataclasses.replace(chart, spec=_each(chart.spec, rows, labels), model=model)


def _place(value: str, labels: Sequence[str]) -> int | None:
    """The model that a value names, alone or before a comma; the longest name counts."""
    named = [
        at
        for at, label in enumerate(labels)
        if f"{value}, ".startswith((f"{label}, ", f"{plain_words(label)}, "))
    ]
    return max(named, key=lambda at: len(labels[at]), default=None)


def _rows(spec: Any) -> Iterator[Mapping[str, Any]]:
    """All rows of data in a specification."""
    if isinstance(spec, Mapping):
        for name, value in cast("Mapping[str, Any]", spec).items():
            if name == "data":
                yield from value.get("values", ())
            elif name != "encoding":
                yield from _rows(value)
    elif isinstance(spec, list):
        for one in cast("list[Any]", spec):
            yield from _rows(one)


def _each(view: Any, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Any:
    """A specification whose colour channels have the run's models as their domain."""
    if isinstance(view, list):
        return [_each(one, rows, labels) for one in cast("list[Any]", view)]
    if not isinstance(view, Mapping):
        return view
    made = dict(cast("Mapping[str, Any]", view))
    for name, value in made.items():
        if name == "encoding" and "color" in value:
            made[name] = {**value, "color": _channel(value["color"], rows, labels)}
        elif name not in ("data", "encoding"):
            made[name] = _each(value, rows, labels)
    return made


def _channel(
    channel: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> Mapping[str, Any]:
    field = channel.get("field")
    if field not in _WHOSE or channel.get("scale") or channel.get("type") != "nominal":
        return channel
    values = list(dict.fromkeys(str(row[field]) for row in rows if row.get(field) is not None))
    places = [_place(value, labels) for value in values]
    by_place = dict(zip(places, values, strict=True))
    if None in by_place or len(by_place) < len(values):
        # Parts of what is about one model, such as sides or languages, are no further models.
        return {**channel, "scale": {"range": KIND_RANGE}}
    # A model that the chart lacks keeps its place by blanks, which no row holds.
    domain = [by_place.get(at, " " * (at + 2)) for at in range(len(labels))]
    kept = {name: value for name, value in channel.items() if name != "sort"}
    if kept.get("legend", {}) is not None:
        kept["legend"] = {**kept.get("legend", {}), "values": [one for one in domain if one in values]}
    return {**kept, "scale": {"domain": domain}}
