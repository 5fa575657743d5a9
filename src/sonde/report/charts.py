"""Charts and drawings of a report: shared parts, model colours, curves over k, and code snippets.

Each model of a run has one colour on every chart, whichever of the models a chart shows.

Curves over k show the share of names that are right among the first k answers, for each kind of statement.
Their colours stand for the answerers, or for the models with dashes for the answerers.

A snippet is drawn as words with arcs between them, or as a heat map with a cell for each pair of words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import altair as alt
import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.formatting import format_name, number
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.text import (
    collapse_blanks,
    lacks_verdict,
    list_inner_views,
    list_mistakes,
    map_encodings,
)
from sonde.report.theme import HEAT_COLOURS, KIND_RANGE, MEANING_RANGE, MEANINGS, MODEL_COLOURS, MONO
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT_WITH_INTERVAL, with_interval


def to_vega_lite(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """Convert to a Vega-Lite specification; only the tests compare it with the schema, once for all."""
    return chart.to_dict(validate=False)


def colour_by_meaning(
    field: str, names: Mapping[str, str], present: Collection[str], legend: bool = True, **look: Any
) -> alt.Color:
    """Build the colour of the model and its controls, the same on every chart of the page.

    Args:
        field: Column that holds the words.
        names: Words by the name of the control, the model's under the empty name.
        present: The words that the chart holds.
        legend: Whether the chart needs a legend.
        look: What sets the legend apart from those of other charts.
    """
    # A scale has a colour for every meaning; words that the chart lacks are blanks, which no row holds.
    words = {name: word for name, word in names.items() if word in present}
    domain = [words.get(name, " " * (index + 2)) for index, name in enumerate(MEANINGS)]
    values = [word for name, word in words.items() if name in MEANINGS]
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=alt.Scale(domain=domain, range=MEANING_RANGE),
        legend=alt.Legend(values=values, **look) if legend and len(values) > 1 else None,
    )


def colour_by_kind(field: str, title: str | None = None) -> alt.Color:
    """Build the colour of what is neither a model nor a control, such as kinds of word."""
    return alt.Color(f"{field}:N", title=title, sort=None, scale=alt.Scale(range=KIND_RANGE))


def dash_by_field(field: str, **look: Any) -> alt.StrokeDash:
    """Build the dashes of a line, in a legend of their own below the chart: colours have theirs above.

    Args:
        field: Column that holds the words.
        look: Which dashes stand for which word, where that is not left open.
    """
    # Grey is told from either background.
    legend = alt.Legend(symbolType="stroke", symbolStrokeColor="#888888", symbolSize=600, orient="bottom")
    return alt.StrokeDash(f"{field}:N", title=None, sort=None, legend=legend, **look)


def list_tooltips(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """List the tooltips of a mark.

    Args:
        fields: Title of each field, such as ``{"n:Q": "edges|,"}``: a format stands behind a bar; an empty
            title is the field's own name.
    """
    parts = [(field, *text.partition("|")) for field, text in fields.items()]
    return [
        alt.Tooltip(field, title=title or alt.Undefined, format=format or alt.Undefined)
        for field, title, _, format in parts
    ]


def layer_axis(title: str = "layer") -> alt.X:
    """Build the axis of a chart with a column per layer."""
    return alt.X("layer:O", title=title, axis=alt.Axis(labelAngle=0))


def mark_estimates(
    base: alt.Chart,
    unit: str,
    *,
    channel: str = "x",
    scale: Any = alt.Undefined,
    axis: Any = alt.Undefined,
    style: str = "interval",
) -> list[alt.Chart]:
    """Draw intervals, and dots that are hollow where too little data allows no verdict.

    Args:
        base: A chart whose rows have ``value``, ``low``, ``high`` and ``few``.
        unit: Title of the axis.
        channel: The axis of the values: ``"x"`` or ``"y"``.
        scale: Its scale, where it is not left to Vega-Lite.
        axis: Its axis, likewise.
        style: Of the intervals: ``"interval"`` in the colour of the model, ``"spread"`` in that of the dot.
    """
    kind = alt.X if channel == "x" else alt.Y
    value: dict[str, Any] = {channel: kind("value:Q", title=unit, scale=scale, axis=axis)}
    interval: dict[str, Any] = {channel: kind("low:Q", title=unit, scale=scale), f"{channel}2": "high:Q"}
    return [
        base.mark_rule(style=style, clip=True).encode(**interval),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(**value),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(**value),
    ]


def plot_estimates(
    records: Sequence[Mapping[str, Any]],
    name: str,
    unit: str,
    tooltip: Mapping[str, str],
    *,
    by: str,
    order: Sequence[str] | None = None,
    colour: alt.Color | None = None,
    by_order: Sequence[str] | None = None,
    share: bool = True,
    scale: Any = None,
    style: str = "interval",
    joint: str = "",
    marks: Mapping[str, str] | None = None,
    label: str = "",
    label_limit: int = 0,
    reference: tuple[float, str] | None = None,
) -> dict[str, Any]:
    """Plot dots with intervals, one line a name; what stands beside each number is a tick or another mark.

    Args:
        records: Rows with ``value``, ``low``, ``high``, ``few`` and the other columns.
        name: Column of the lines.
        unit: Title of the axis.
        tooltip: Fields of the tooltip of a dot, see `list_tooltips`.
        by: Column of what is side by side within a line, such as models.
        order: Names from top to bottom; by default as the records have them.
        colour: What the colour stands for; by default several values of `by`.
        by_order: The order within a line.
        share: Whether the values are shares, from 0 to 1.
        scale: Scale of values that are no shares; by default one that need not begin at 0.
        style: Of the intervals, see `mark_estimates`.
        joint: Column of what a line leads to from the number.
        marks: Columns of what stands beside the number, with the style of their marks: ``"random"`` is a
            diamond, any other a tick.
        label: Column of a text at the right end of each line.
        label_limit: Pixels that a name may take before it is cut; 0 for as many as in any chart.
        reference: Value of a dashed line, and its text.
    """
    labels = alt.Axis(labelLimit=label_limit) if label_limit else alt.Undefined
    y = alt.Y(f"{name}:N", sort=order, title=None, axis=labels)
    # The data stand once, above the layers: each layer would repeat them beside a line with its own.
    plain = base = alt.Chart().encode(y=y, tooltip=list_tooltips(tooltip))
    lines = len({record[by] for record in records})
    if lines > 1:
        plain = base.encode(yOffset=alt.YOffset(f"{by}:N", sort=by_order))
        base = plain.encode(color=colour or alt.Color(f"{by}:N", title=None, sort=None))
    elif colour is not None:
        base = base.encode(color=colour)
    if share:
        scale = alt.Scale(domain=[0, 1], nice=False)
    elif scale is None:
        scale = alt.Scale(zero=False, nice=True)
    axis = alt.Axis(format="%") if share else alt.Undefined
    layers = mark_estimates(base, unit, scale=scale, axis=axis, style=style)
    for column, mark in (marks or {}).items():
        rows = plain.transform_filter(f"isValid(datum.{column})")
        shape = rows.mark_tick(style=mark)
        if mark == "random":
            shape = rows.mark_point(style=mark, shape="diamond")
        layers.insert(1, shape.encode(x=alt.X(f"{column}:Q", title=unit, scale=scale)))
    if joint:
        line = plain.mark_rule(style="joint")
        layers.insert(0, line.encode(x=alt.X("value:Q", title=unit, scale=scale), x2=f"{joint}:Q"))
    if label:
        text = base.mark_text(style="note", align="left", dx=8)
        layers.append(text.encode(x=alt.value("width"), text=f"{label}:N"))
    if reference is not None:
        value, words = reference
        line = alt.Chart(alt.Data(values=[{"reference": value, "text": words}])).encode(x="reference:Q")
        layers.insert(0, line.mark_rule(style="reference"))
        if words:
            text = line.mark_text(style="note", align="left", dx=4, baseline="bottom", dy=-3)
            layers.append(text.encode(y=alt.value(0), text="text:N"))
    chart = alt.layer(*layers, data=alt.Data(values=list(records)))
    return to_vega_lite(chart.properties(height=row_height(lines)))


def plot_dots(
    rows: pl.DataFrame,
    order: list[str],
    unit: str,
    counts: str = "observations",
    *,
    reference: tuple[float, str] | None = None,
    reach: float | None = None,
    scale: float = 1.0,
    label_limit: int = 0,
) -> dict[str, Any]:
    """Plot scores as dots with intervals, one line a name, side by side for several models.

    Args:
        rows: Score rows with ``name`` and ``shown``.
        order: Names from top to bottom.
        unit: Title of the axis.
        counts: Plural noun of what ``n`` of a row counts.
        reference: Where a dashed line stands, in the unit of the axis, and its name without the number.
        reach: Right end of the axis, so that neighbouring charts share it.
        scale: By which values are multiplied to be in the unit of the axis; a verdict needs them as they are.
        label_limit: Pixels that a name may take before it is cut; 0 for as many as in any chart.
    """
    records = [
        {
            "name": row["name"],
            "model": row["shown"],
            "value": row["value"] * scale,
            "low": None if row["ci_low"] is None else row["ci_low"] * scale,
            "high": None if row["ci_high"] is None else row["ci_high"] * scale,
            "count": f"{row['n']:,}",
            "number": f"{row['n']:,} {counts}",
            "reading": with_interval(row, scale),
            "few": lacks_verdict(row),
            "clusters": row["n_clusters"],
        }
        for row in rows.iter_rows(named=True)
    ]
    single = rows["shown"].n_unique() < 2
    tooltip = {
        "name:N": " ",
        "model:N": "model",
        "reading:N": unit,
        "count:N": counts,
        "clusters:Q": "clusters",
    }
    if single:
        del tooltip["model:N"]
    # A chart of one model says behind each line how much it rests on, which takes room.
    domain = [0, reach * (1.22 if single else 1.0)] if reach else None
    return plot_estimates(
        records,
        "name",
        unit,
        tooltip,
        by="model",
        order=order,
        share=False,
        scale=alt.Scale(zero=True, nice=False, domain=domain) if domain else alt.Scale(zero=True),
        label="number" if reach and single else "",
        label_limit=label_limit,
        reference=reference
        and (reference[0], f"{reference[1]} {number(reference[0])}" if reference[1] else ""),
    )


def plot_differences(
    rows: pl.DataFrame,
    order: list[str],
    unit: str,
    counts: str = "observations",
    scale: float = 1.0,
    *,
    label_limit: int = 0,
) -> dict[str, Any]:
    """Plot dots with intervals, as `plot_dots`, around a dashed line at zero."""
    return plot_dots(rows, order, unit, counts, scale=scale, label_limit=label_limit, reference=(0.0, ""))


def build_confusions(
    parts: Sequence[tuple[str, str, pl.DataFrame]], lead: Sequence[Column], *, minimum: int, angle: int = 0
) -> Figure:
    """Build a figure of classes and what is taken for them: a matrix each, and a table of wrong classes.

    Args:
        parts: Name of the chart, its title, and rows with ``gold``, ``said`` and the share as ``value``.
        lead: Columns before those of classes, of the first row of a class and the ``title`` of its part.
        minimum: Fewest classes of which a matrix is drawn; for fewer the table says as much.
        angle: Of the names of columns, in degrees.
    """
    charts: list[Chart] = []
    records: list[dict[str, Any]] = []
    for name, title, rows in parts:
        by_class = {str(gold): part for (gold,), part in _partition(rows, "gold")}
        classes = [*by_class, *sorted(set(rows["said"].to_list()) - set(by_class))]
        if len(classes) >= minimum:
            spec = _plot_confusions(rows, classes, angle)
            charts.append(Chart(name=name, title=title, spec=spec, wide=len(classes) > 8))
        for gold, part in by_class.items():
            # A class that is never predicted has no row of its own.
            right = next(part.filter(pl.col("said") == gold).iter_rows(named=True), {"value": 0.0})
            first = part.row(0, named=True)
            records.append({**first, "title": title, "right": right, "wrong": list_mistakes(part)})
    return Figure(
        charts=charts,
        table=Table(
            summary="Every class, and the wrong classes predicted for it",
            columns=[
                *lead,
                Column(title="Class", value="gold", help="The true class."),
                Column(title="Right, %", value="right", format=PERCENT_WITH_INTERVAL),
                Column(
                    title="Wrongly predicted as, %",
                    value="wrong",
                    help="Up to three wrong classes in order of their shares of these very examples.",
                ),
                Column(title="Examples", value="n", format=COUNT, help="Examples of the class."),
                Column(title="Clusters", value="n_clusters", format=COUNT, help="Clusters of its examples."),
            ],
            rows=records,
        ),
    )


def _partition(rows: pl.DataFrame, *columns: str) -> Iterable[tuple[tuple[object, ...], pl.DataFrame]]:
    return rows.partition_by(*columns, as_dict=True, maintain_order=True).items()


_MAX_NUMBERED_CLASSES = 16
"""Classes of a matrix up to which its cells have room for their numbers."""


def _plot_confusions(rows: pl.DataFrame, order: list[str], angle: int) -> dict[str, Any]:
    scale = alt.Scale(domain=order)
    records = rows.select("gold", "said", "value", "n").to_dicts()
    return plot_heat_map(
        [{**record, "percent": number(100 * record["value"], 0)} for record in records],
        alt.X("said:N", scale=scale, title="predicted", axis=alt.Axis(labelAngle=angle)),
        alt.Y("gold:N", scale=scale, title="class"),
        {
            "gold:N": "class",
            "said:N": "predicted",
            "value:Q": "share|.1%",
            "n:Q": "examples of the class|,",
        },
        text="percent" if len(order) <= _MAX_NUMBERED_CLASSES else "",
        columns=len(order),
    )


def plot_heat_map(
    records: Sequence[Mapping[str, Any]],
    x: alt.X,
    y: alt.Y,
    tooltip: Mapping[str, str],
    *,
    legend: str = "",
    text: str = "",
    columns: int = 1,
    size: int = 11,
    step: int = 20,
) -> dict[str, Any]:
    """Plot cells that are coloured by a share, ``value``.

    Args:
        records: A row a cell.
        x: Columns.
        y: Rows.
        tooltip: Fields of the tooltip of a cell, see `list_tooltips`.
        legend: Title of the legend; none by default.
        text: Column of a text in each cell.
        columns: Cells between which the width is shared, for the room of the text.
        size: Of the text.
        step: Height of a row.
    """
    base = alt.Chart(alt.Data(values=list(records))).encode(x=x, y=y, tooltip=list_tooltips(tooltip))
    colour = alt.Color(
        "value:Q",
        title=legend or None,
        scale=alt.Scale(domain=[0, 1]),
        legend=alt.Legend(format="%") if legend else None,
    )
    layers = [base.mark_rect().encode(color=colour)]
    if text:
        # Dark or light as stands out, and cut to a column.
        room = alt.ExprRef(f"width / {columns} - 4")
        layers += [
            base.transform_filter(f"datum.value {condition} 0.6")
            .mark_text(style=style, fontSize=size, limit=room)
            .encode(text=f"{text}:N")
            for condition, style in (("<=", "name"), (">", "reversed"))
        ]
    return to_vega_lite(alt.layer(*layers).properties(height=alt.Step(step)))


def plot_lines(
    base: alt.Chart,
    y: alt.Y,
    *,
    band: alt.Y | None = None,
    points: bool = True,
    height: int = 240,
    layers_above: Sequence[alt.Chart] = (),
) -> dict[str, Any]:
    """Plot lines with a dot at each value.

    Args:
        base: A chart with its x axis, colour and tooltip.
        y: Axis of the values.
        band: Axis of the lower ends of the intervals, ``low``, whose upper ends are ``high``.
        points: Whether the values have dots.
        height: Of the chart, in pixels.
        layers_above: Further layers, above the lines.
    """
    layers = [] if band is None else [base.mark_area(style="band", clip=True).encode(y=band, y2="high:Q")]
    layers.append(base.mark_line(style="trend", clip=True).encode(y=y))
    layers += [base.mark_point(style="dot", filled=True).encode(y=y)] if points else []
    return to_vega_lite(alt.layer(*layers, *layers_above).properties(height=height))


def split_by_subject(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each subject, what ends the names of its charts (empty for a single one), and its rows."""
    parts = dict(_partition(rows, "subject"))
    for index, ((subject,), part) in enumerate(parts.items()):
        yield str(subject), f"-{index}" if len(parts) > 1 else "", part


def plot_by_subject(
    rows: pl.DataFrame, name: str, title: str, plot: Callable[[pl.DataFrame], dict[str, Any]], **options: bool
) -> list[Chart]:
    """Plot a chart a subject.

    Args:
        rows: Scores with their ``subject``.
        name: Beginning of the charts' names.
        title: Beginning of their titles, before the subject.
        plot: Plots the rows of a subject.
        options: Further attributes of the charts, such as ``wide``.
    """
    return [
        Chart(name=f"{name}{suffix}", title=f"{title}, {subject}", spec=plot(part), **options)
        for subject, suffix, part in split_by_subject(rows)
    ]


def row_height(lines: int) -> alt.Step:
    """Return the height of one row of a chart that holds this many lines side by side."""
    return alt.Step(max(24, 13 * lines + 8), **{"for": "position"})


_SUBJECT_COLUMNS = ("model", "subject", "line", "shown")
"""Columns of a chart's data that say whom a mark is about."""


def with_model_colours(chart: Chart, labels: Sequence[str], only: int = 0) -> Chart:
    """Return a chart whose colours stand for the models at their indices in the run.

    Args:
        chart: The chart.
        labels: Names of the run's models as shown, in its order.
        only: Index of the model where the chart does not say whom it is about.
    """
    rows = list(_iterate_data_rows(chart.spec))
    subjects = [row[name] for row in rows for name in _SUBJECT_COLUMNS if isinstance(row.get(name), str)]
    indices = {index for subject in subjects if (index := _find_model_index(subject, labels)) is not None}
    model = 0 if indices else _find_title_model(chart.title, labels)
    if len(indices) == 1:
        model = indices.pop()

    def recolour(encoding: dict[str, Any], _: object) -> dict[str, Any]:
        colour = encoding.get("color")
        return {**encoding, "color": _recolour_channel(colour, rows, labels)} if colour else encoding

    spec = map_encodings(chart.spec, recolour)
    return dataclasses.replace(chart, spec=spec, model=only if model is None else model)


def _find_title_model(title: str, labels: Sequence[str]) -> int | None:
    """Find the model that a title ends with, or else names."""
    index = next((index for index, label in enumerate(labels) if title.endswith(f", {label}")), None)
    if index is None:
        index = _find_model_index(title.rpartition(", ")[2], labels)
    if index is None:
        index = next((index for index, label in enumerate(labels) if f", {label}, " in title), None)
    return index


def _find_model_index(subject: str, labels: Sequence[str]) -> int | None:
    """Find the model that a text names, by itself or before a comma; the longest name counts."""
    indices = [
        index
        for index, label in enumerate(labels)
        if f"{subject}, ".startswith((f"{label}, ", f"{format_name(label)}, "))
    ]
    return max(indices, key=lambda index: len(labels[index]), default=None)


def _iterate_data_rows(view: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from view.get("data", {}).get("values", ())
    for inner in list_inner_views(view):
        yield from _iterate_data_rows(inner)


def _recolour_channel(
    channel: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> Mapping[str, Any]:
    field = channel.get("field")
    if field not in _SUBJECT_COLUMNS or channel.get("scale") or channel.get("type") != "nominal":
        return channel
    values = list(dict.fromkeys(str(row[field]) for row in rows if row.get(field) is not None))
    by_index = {_find_model_index(value, labels): value for value in values}
    if None in by_index or len(by_index) < len(values):
        # Parts of what is about one model, such as sides or languages, are no further models.
        return {**channel, "scale": {"range": KIND_RANGE}}
    # A model that the chart lacks keeps its colour by blanks, which no row holds.
    domain = [by_index.get(index, " " * (index + 2)) for index in range(len(labels))]
    options = {name: value for name, value in channel.items() if name != "sort"}
    if options.get("legend", {}) is not None:
        present = [label for label in domain if label in values]
        options["legend"] = {**options.get("legend", {}), "values": present}
    return {**options, "scale": {"domain": domain}}


_HEIGHT = 230


_DASHES = [[1, 0], [7, 4], [2, 4], [10, 3, 2, 3], [1, 7], [4, 2]]


TEMPLATE = "template"
"""Dimension of one kind of statement."""


TEMPLATES: Mapping[str, str] = {
    "call": "calls",
    "import": "imports",
    "alias": "aliases",
    "adversarial": "adversarial aliases",
}


def model_order(run: RunData) -> pl.Expr:
    """Build the expression of the index of a row's model in the run."""
    order = {model.name: index for index, model in enumerate(run.models)}
    return pl.col("model").replace_strict(order, default=len(order), return_dtype=pl.Int64)


def sort_by_k(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows by model and k, with ``subject`` and the index of the model as ``place``."""
    return rows.with_columns(subject=run.subject, place=model_order(run)).sort(
        "place", "k", maintain_order=True
    )


def group_by_k(rows: pl.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Group rows into records with their rows ``by_k``, each in the columns of the row with the smallest k.

    Args:
        rows: Scores with ``k``.
        keys: Columns whose values make a record.
    """
    parts = (
        {row["k"]: row for row in part.iter_rows(named=True)}
        for part in rows.partition_by(keys, maintain_order=True)
    )
    return [{**by_k[min(by_k)], "by_k": by_k} for by_k in parts]


def plot_curves(
    rows: pl.DataFrame, order: Sequence[str], controls: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Plot a curve for each answerer and model over k, with a band for the first answerer's interval.

    Args:
        rows: Scores with ``who``, ``subject`` and ``k``.
        order: Answerers as they are listed.
        controls: Their words by the name of the control, where they are the model and its controls.
    """
    has_several_subjects = rows["subject"].n_unique() > 1
    present = [answerer for answerer in order if answerer in set(rows["who"])]
    records = [
        {
            "who": row["who"],
            "banded": row["who"] == present[0],
            "subject": row["subject"],
            "k": row["k"],
            "value": row["value"],
            "low": None if row["ci_low"] is None else max(row["ci_low"], 0.0),
            "high": None if row["ci_high"] is None else min(row["ci_high"], 1.0),
            "reading": with_interval(row, 100, 1),
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("k:Q", title="k", axis=alt.Axis(format="d", tickMinStep=1)),
        detail=["subject:N", "who:N"],
        tooltip=list_tooltips({"subject:N": " ", "who:N": "answers", "k:Q": "", "reading:N": "right, %"}),
    )
    if has_several_subjects:
        # Models are told apart by colour, as everywhere on the page.
        base = base.encode(color=alt.Color("subject:N", title=None, sort=None))
    elif controls:
        base = base.encode(color=colour_by_meaning("who", controls, present))
    title, scale = "right among the first k", alt.Scale(domain=[0, 1], nice=False)
    y = alt.Y("value:Q", title=title, axis=alt.Axis(format="%"), scale=scale)
    line = base.mark_line(style="trend").encode(y=y)
    if len(present) > 1 and (has_several_subjects or not controls):
        dashes = alt.Scale(domain=present, range=_DASHES)
        line = line.encode(strokeDash=dash_by_field("who", scale=dashes))
    intervals = base.transform_filter("datum.banded").transform_filter("isValid(datum.low)")
    band = intervals.mark_area(style="band").encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    points = base.mark_point(style="dot", filled=True).encode(y=y)
    return to_vega_lite(alt.layer(band, line, points).properties(height=_HEIGHT))


STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
"""Shares of what a word pays at which the colour of a field changes; less is not drawn."""


_LINE = 16


_MIDDLE = 320


_SIDE = 200


_CELL = 11


_LABEL = 120


_MAX_LENGTH = 16


_HIT = f"var(--model-0, {MODEL_COLOURS['light'][0]})"


_MISS = f"var(--model-1, {MODEL_COLOURS['light'][1]})"


_TARGET = "var(--muted, #65625b)"


_INK = "var(--ink, #1d1c1a)"


ArcEnds = tuple[str, int, int, int]
"""A relation, and the indices of the words asked, looked for and ranked first."""


def render_arcs(words: Sequence[str], visible: Sequence[int], edges: Sequence[ArcEnds]) -> str:
    """Render words from top to bottom, with arcs to what is ranked first (right) and what is missed (left).

    Args:
        words: All words.
        visible: Indices of those that are drawn.
        edges: The edges; those with a word that is not drawn are left out.
    """
    root = create_svg(_MIDDLE * 2, _LINE * (len(visible) + 1))
    line = {word: _LINE * (row + 1) for row, word in enumerate(visible)}
    for word in visible:
        _add_text(root, words[word], {"x": _MIDDLE, "y": line[word] + 4}, "middle", 12)
    for name, source, target, choice in edges:
        if not {source, target, choice} <= line.keys():
            continue
        is_hit = target == choice
        start = f"{name}: from “{shorten_word(words[source])}”"
        style = {"stroke": _HIT} if is_hit else {"stroke": _MISS, "stroke-dasharray": "4 3"}
        title = f"{start} to “{shorten_word(words[choice])}”"
        _add_arc(root, line[source], line[choice], 1, style, title)
        if not is_hit:
            title = f"{start}, looked for “{shorten_word(words[target])}”"
            _add_arc(root, line[source], line[target], -1, {"stroke": _TARGET}, title)
    return ElementTree.tostring(root, encoding="unicode")


def render_heat_map(
    words: Sequence[str], visible: Sequence[int], weights: Float[np.ndarray, "word word"]
) -> str:
    """Render the shares that each word (a row) gives to each other (a column).

    Args:
        words: All words.
        visible: Indices of those that are drawn.
        weights: Shares that a word (a row) gives to each word; NaN where there is nothing to show.
    """
    size = _LABEL + _CELL * len(visible) + 4
    root = create_svg(size, size)
    colours = [background for background, _ in HEAT_COLOURS["light"]]
    cell_size = {"width": str(_CELL), "height": str(_CELL)}
    for row, word in enumerate(visible):
        middle = _LABEL + _CELL * row + _CELL / 2
        _add_text(root, words[word], {"x": _LABEL - 4, "y": middle + 3}, "end", 9)
        turn = f"translate({middle} {_LABEL - 4}) rotate(-90)"
        _add_text(root, words[word], {"x": 0, "y": 3, "transform": turn}, "start", 9)
        for column, target in enumerate(visible):
            share = float(weights[word, target])
            # NaN is never at or above a threshold.
            step = sum(share >= threshold for threshold in STEPS)
            if not step:
                continue
            position = {"x": str(_LABEL + _CELL * column), "y": str(_LABEL + _CELL * row)}
            fill = f"var(--heat-{step}, {colours[step]})"
            cell = ElementTree.SubElement(root, "rect", {**position, **cell_size, "fill": fill})
            pair = f"“{shorten_word(words[word])}” to “{shorten_word(words[target])}”"
            ElementTree.SubElement(cell, "title").text = f"{pair}: {number(100 * share, 0)} %"
    width = str(_CELL * len(visible))
    frame = {"x": str(_LABEL), "y": str(_LABEL), "fill": "none", "stroke": "var(--line, #e3dfd6)"}
    ElementTree.SubElement(root, "rect", {**frame, "width": width, "height": width})
    return ElementTree.tostring(root, encoding="unicode")


def shorten_word(word: str) -> str:
    r"""Shorten a word for display: blanks as signs, long words cut, nothing that XML does not hold.

    >>> shorten_word("    "), shorten_word("x" * 20), shorten_word("a\x0cb")
    ('␣␣␣␣', 'xxxxxxxxxxxxxxx…', 'a·b')
    """
    signs = word.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣")
    clean = collapse_blanks("".join(sign if sign.isprintable() else "·" for sign in signs))
    return clean if len(clean) <= _MAX_LENGTH else f"{clean[: _MAX_LENGTH - 1]}…"


def create_svg(width: int, height: int) -> ElementTree.Element:
    """Create an empty drawing of a size, in the type of code."""
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}"}
    attributes |= {"width": str(width), "height": str(height), "role": "img", "font-family": MONO}
    return ElementTree.Element("svg", attributes)


def _add_text(
    root: ElementTree.Element, word: str, position: Mapping[str, object], anchor: str, size: int
) -> None:
    look = {"text-anchor": anchor, "font-size": size, "fill": _INK}
    attributes = {name: str(value) for name, value in {**position, **look}.items()}
    ElementTree.SubElement(root, "text", attributes).text = shorten_word(word)


def _add_arc(
    root: ElementTree.Element, start: int, end: int, direction: int, style: dict[str, str], title: str
) -> None:
    edge = _MIDDLE + direction * 75
    reach = edge + direction * min(_SIDE, 12 + abs(end - start) // 2)
    path = f"M {edge} {start} C {reach} {start} {reach} {end} {edge} {end}"
    arc = ElementTree.SubElement(root, "path", {"d": path, "fill": "none", "stroke-width": "1.6", **style})
    dot = {"cx": str(edge), "cy": str(end), "r": "2.5", "fill": style["stroke"]}
    ElementTree.SubElement(root, "circle", dot)
    ElementTree.SubElement(arc, "title").text = title
