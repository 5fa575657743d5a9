"""Charts and drawings of a report: shared parts, model colours, curves over k, and code snippets.

Each model of a run has one colour on every chart, whichever of the models a chart shows.

Curves over k show the share of names that are right among the first k answers, for each kind of statement.
Their colours stand for the answerers, or for the models with dashes for the answerers.

A snippet is drawn as words with arcs between them, or as a heat map with a cell for each pair of words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast
from xml.etree import ElementTree

import altair as alt
import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.formatting import format_name, number
from sonde.report.run_tables import RunData
from sonde.report.section import Chart
from sonde.report.text import collapse_blanks, lacks_verdict
from sonde.report.theme import HEAT_COLOURS, KIND_RANGE, MEANING_RANGE, MEANINGS, MODEL_COLOURS, MONO
from sonde.results.text_format import with_interval


def to_vega_lite(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """A chart as a Vega-Lite specification; not held against the schema, which the tests do once for all."""
    return chart.to_dict(validate=False)


def colour_by_meaning(
    field: str, names: Mapping[str, str], present: Collection[str], legend: bool = True, **look: Any
) -> alt.Color:
    """The colour of the model and its controls, the same on every chart of the page.

    Args:
        field: Column that holds the words.
        names: Words by the name of the control, the model's under the empty name.
        present: The words that the chart holds.
        legend: Whether the chart needs a legend.
        look: What sets the legend apart from those of other charts.
    """
    # A scale has a colour for every meaning; words that the chart lacks are blanks, which no row holds.
    words = {name: word for name, word in names.items() if word in present}
    domain = [words.get(name, " " * (place + 2)) for place, name in enumerate(MEANINGS)]
    values = [word for name, word in words.items() if name in MEANINGS]
    shown = alt.Legend(values=values, **look) if legend and len(values) > 1 else None
    return alt.Color(
        f"{field}:N", title=None, scale=alt.Scale(domain=domain, range=MEANING_RANGE), legend=shown
    )


def colour_by_kind(field: str, title: str | None = None) -> alt.Color:
    """The colour of what is neither a model nor a control, such as kinds of word."""
    return alt.Color(f"{field}:N", title=title, sort=None, scale=alt.Scale(range=KIND_RANGE))


def dash_by_field(field: str, **look: Any) -> alt.StrokeDash:
    """The dashes of a line, in a legend of their own below the chart: colours have theirs above.

    Args:
        field: Column that holds the words.
        look: Which dashes stand for which word, where that is not left open.
    """
    # Grey is told from either background.
    legend = alt.Legend(symbolType="stroke", symbolStrokeColor="#888888", symbolSize=600, orient="bottom")
    return alt.StrokeDash(f"{field}:N", title=None, sort=None, legend=legend, **look)


def mark_estimates(
    base: alt.Chart,
    unit: str,
    *,
    channel: str = "x",
    scale: Any = None,
    axis: Any = None,
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
    look: dict[str, Any] = {"title": unit, "scale": alt.Undefined if scale is None else scale}
    shown = alt.Undefined if axis is None else axis
    value: dict[str, Any] = {channel: kind("value:Q", axis=shown, **look)}
    interval: dict[str, Any] = {channel: kind("low:Q", **look), f"{channel}2": "high:Q"}
    return [
        base.mark_rule(style=style, clip=True).encode(**interval),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(**value),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(**value),
    ]


def plot_estimates(
    records: Sequence[Mapping[str, Any]],
    name: str,
    unit: str,
    tooltip: Sequence[alt.Tooltip],
    *,
    by: str,
    order: Sequence[str] | None = None,
    colour: alt.Color | None = None,
    by_order: Sequence[str] | None = None,
    share: bool = True,
    style: str = "interval",
    joint: str = "",
    marks: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Dots with intervals, one line a name; what stands beside each number is a tick or another mark.

    Args:
        records: Rows with ``value``, ``low``, ``high``, ``few`` and the other columns.
        name: Column of the lines.
        unit: Title of the axis.
        tooltip: What is told of a dot.
        by: Column of what is side by side within a line, such as models.
        order: Names from top to bottom; by default as the records have them.
        colour: What the colour stands for; by default several values of `by`.
        by_order: The order within a line.
        share: Whether the values are shares, from 0 to 1.
        style: Of the intervals, see `mark_estimates`.
        joint: Column of what a line leads to from the number.
        marks: Columns of what stands beside the number, with the style of their marks: ``"random"`` is a
            diamond, any other a tick.
    """
    y = alt.Y(f"{name}:N", sort=order, title=None)
    plain = base = alt.Chart(alt.Data(values=list(records))).encode(y=y, tooltip=list(tooltip))
    lines = len({record[by] for record in records})
    if lines > 1:
        plain = base.encode(yOffset=alt.YOffset(f"{by}:N", sort=by_order))
        base = plain.encode(color=colour or alt.Color(f"{by}:N", title=None, sort=None))
    elif colour is not None:
        base = base.encode(color=colour)
    scale = alt.Scale(domain=[0, 1], nice=False) if share else alt.Scale(zero=False, nice=True)
    axis = alt.Axis(format="%") if share else None
    layers = mark_estimates(base, unit, scale=scale, axis=axis, style=style)
    for column, mark in (marks or {}).items():
        x = alt.X(f"{column}:Q", title=unit, scale=scale)
        held = plain.transform_filter(f"isValid(datum.{column})")
        shape = (
            held.mark_point(style=mark, shape="diamond") if mark == "random" else held.mark_tick(style=mark)
        )
        layers.insert(1, shape.encode(x=x))
    if joint:
        line = plain.mark_rule(style="joint")
        layers.insert(0, line.encode(x=alt.X("value:Q", title=unit, scale=scale), x2=f"{joint}:Q"))
    return to_vega_lite(alt.layer(*layers).properties(height=row_height(lines)))


def plot_dots(
    rows: pl.DataFrame,
    order: list[str],
    unit: str,
    *,
    reference: float | None = None,
    reach: float | None = None,
    stands_for: str = "mean",
    scale: float = 1.0,
    names: int = 0,
) -> dict[str, Any]:
    """Dots with intervals, one line a name, side by side for several models; hollow without a verdict.

    Args:
        rows: Score rows with ``name`` and ``shown``.
        order: Names from top to bottom.
        unit: Title of the axis.
        reference: Where a dashed line stands for the overall mean, in the unit of the axis.
        reach: Right end of the axis, so that neighbouring charts share it.
        stands_for: What the dashed line is, in a word.
        scale: By which values are multiplied to be in the unit of the axis; a verdict needs them as they are.
        names: Pixels that a name may take before it is cut; 0 for as many as in any chart.
    """
    records = [
        {
            "name": row["name"],
            "model": row["shown"],
            "value": row["value"] * scale,
            "low": None if row["ci_low"] is None else row["ci_low"] * scale,
            "high": None if row["ci_high"] is None else row["ci_high"] * scale,
            "count": f"{row['n']:,}",
            "number": f"n {row['n']:,}",
            "reading": with_interval(row, scale),
            "few": lacks_verdict(row),
            "clusters": row["n_clusters"],
        }
        for row in rows.iter_rows(named=True)
    ]
    lines = rows["shown"].n_unique()
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y(
            "name:N", sort=order, title=None, axis=alt.Axis(labelLimit=names) if names else alt.Undefined
        ),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            *([alt.Tooltip("model:N", title="model")] if lines > 1 else []),
            alt.Tooltip("reading:N", title=unit),
            alt.Tooltip("count:N", title="n"),
            alt.Tooltip("clusters:Q", title="clusters"),
        ],
    )
    if lines > 1:
        base = base.encode(
            color=alt.Color("model:N", title=None, sort=None), yOffset=alt.YOffset("model:N", sort=None)
        )
    room = 1.0 if lines > 1 else 1.22
    axis = alt.Scale(zero=True, nice=False, domain=[0, reach * room]) if reach else alt.Scale(zero=True)
    layers = mark_estimates(base, unit, scale=axis)
    if reach and lines == 1:
        label = base.mark_text(style="note", align="left", dx=8)
        layers.append(label.encode(x=alt.value("width"), text="number:N"))
    if reference is not None:
        line = alt.Chart(alt.Data(values=[{"mean": reference, "text": f"{stands_for} {number(reference)}"}]))
        layers.insert(0, line.mark_rule(style="reference").encode(x="mean:Q"))
        text = line.mark_text(style="note", align="left", dx=4, baseline="bottom", dy=-3)
        layers.append(text.encode(x="mean:Q", y=alt.value(0), text="text:N"))
    return to_vega_lite(alt.layer(*layers).properties(height=row_height(lines)))


def plot_differences(
    rows: pl.DataFrame, order: list[str], unit: str, scale: float = 1.0, *, names: int = 0
) -> dict[str, Any]:
    """Dots with intervals, as `plot_dots`, around a dashed line at zero."""
    spec = plot_dots(rows, order, unit, scale=scale, names=names)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(x="zero:Q")
    line = {key: value for key, value in zero.to_dict().items() if key in ("data", "mark", "encoding")}
    spec["layer"].insert(0, line)
    return spec


def plot_confusions(rows: pl.DataFrame, order: list[str], angle: int = 0) -> dict[str, Any]:
    """A matrix of classes: the share of a class (a row) that is given to each class (a column).

    Args:
        rows: Columns ``gold``, ``said``, ``value`` (a share) and ``n`` (examples of the class).
        order: The classes.
        angle: Of the columns' names, in degrees.
    """
    scale = alt.Scale(domain=order)
    return plot_heat_map(
        rows.select("gold", "said", "value", "n").to_dicts(),
        alt.X("said:N", scale=scale, title="predicted", axis=alt.Axis(labelAngle=angle)),
        alt.Y("gold:N", scale=scale, title="class"),
        [
            alt.Tooltip("gold:N", title="class"),
            alt.Tooltip("said:N", title="predicted"),
            alt.Tooltip("value:Q", format=".1%", title="share"),
            alt.Tooltip("n:Q", format=",", title="examples of the class"),
        ],
    )


def plot_heat_map(
    records: Sequence[Mapping[str, Any]],
    x: alt.X,
    y: alt.Y,
    tooltip: Sequence[alt.Tooltip],
    *,
    legend: str = "",
    text: str = "",
    columns: int = 1,
    size: int = 11,
    step: int = 20,
) -> dict[str, Any]:
    """Cells that are coloured by a share, ``value``.

    Args:
        records: A row a cell.
        x: Columns.
        y: Rows.
        tooltip: What is told of a cell.
        legend: Title of the legend; none by default.
        text: Column of a text in each cell.
        columns: Cells between which the width is shared, for the room of the text.
        size: Of the text.
        step: Height of a row.
    """
    base = alt.Chart(alt.Data(values=list(records))).encode(x=x, y=y, tooltip=list(tooltip))
    shown = alt.Legend(format="%") if legend else None
    colour = alt.Color("value:Q", title=legend or None, scale=alt.Scale(domain=[0, 1]), legend=shown)
    texts = label_cells(base, f"{text}:N", columns, size) if text else []
    return to_vega_lite(
        alt.layer(base.mark_rect().encode(color=colour), *texts).properties(height=alt.Step(step))
    )


def plot_lines(
    base: alt.Chart,
    y: alt.Y,
    *,
    band: alt.Y | None = None,
    points: bool = True,
    height: int = 240,
    more: Sequence[alt.Chart] = (),
) -> dict[str, Any]:
    """Lines with a dot at each value.

    Args:
        base: A chart with its x axis, colour and tooltip.
        y: Axis of the values.
        band: Axis of the lower ends of the intervals, ``low``, whose upper ends are ``high``.
        points: Whether the values have dots.
        height: Of the chart, in pixels.
        more: Further layers, above the lines.
    """
    layers = [] if band is None else [base.mark_area(style="band", clip=True).encode(y=band, y2="high:Q")]
    layers.append(base.mark_line(style="trend", clip=True).encode(y=y))
    layers += [base.mark_point(style="dot", filled=True).encode(y=y)] if points else []
    return to_vega_lite(alt.layer(*layers, *more).properties(height=height))


def label_cells(cells: alt.Chart, text: str, columns: int, size: int = 11) -> list[alt.Chart]:
    """Text in cells that are coloured by a share, ``value``: dark or light as stands out, cut to a column."""
    room = alt.ExprRef(f"width / {columns} - 4")
    return [
        cells.transform_filter(f"datum.value {side} 0.6")
        .mark_text(style=style, fontSize=size, limit=room)
        .encode(text=text)
        for side, style in (("<=", "name"), (">", "reversed"))
    ]


def split_by_subject(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Yield each subject, what ends the names of its charts (empty for a single one), and its rows."""
    parts = rows.partition_by("subject", as_dict=True, maintain_order=True)
    for place, ((subject,), part) in enumerate(parts.items()):
        yield str(subject), f"-{place}" if len(parts) > 1 else "", part


def row_height(lines: int) -> alt.Step:
    """Height of one row of a chart that holds this many lines side by side."""
    return alt.Step(max(24, 13 * lines + 8), **{"for": "position"})


_WHOSE = ("model", "subject", "line", "shown")
"""Columns of a chart's data that say whom a mark is about."""


def with_model_colours(chart: Chart, labels: Sequence[str], only: int = 0) -> Chart:
    """A chart whose colours stand for the models at their places in the run.

    Args:
        chart: The chart.
        labels: Names of the run's models as shown, in its order.
        only: Place of the model where the chart does not say whom it is about.
    """
    rows = list(_iterate_data_rows(chart.spec))
    told = [row[name] for row in rows for name in _WHOSE if isinstance(row.get(name), str)]
    places = {place for value in told if (place := _find_model_index(value, labels)) is not None}
    titled = next((place for place, label in enumerate(labels) if chart.title.endswith(f", {label}")), None)
    if len(places) == 1:
        model = places.pop()
    elif places:
        model = 0
    else:
        model = _find_model_index(chart.title.rpartition(", ")[2], labels) if titled is None else titled
        if model is None:
            model = next((at for at, label in enumerate(labels) if f", {label}, " in chart.title), only)
    return dataclasses.replace(chart, spec=_recolour_view(chart.spec, rows, labels), model=model)


def _find_model_index(value: str, labels: Sequence[str]) -> int | None:
    """The model that a value names, alone or before a comma; the longest name counts."""
    named = [
        at
        for at, label in enumerate(labels)
        if f"{value}, ".startswith((f"{label}, ", f"{format_name(label)}, "))
    ]
    return max(named, key=lambda at: len(labels[at]), default=None)


def _iterate_data_rows(spec: Any) -> Iterator[Mapping[str, Any]]:
    """All rows of data in a specification."""
    if isinstance(spec, Mapping):
        for name, value in cast("Mapping[str, Any]", spec).items():
            if name == "data":
                yield from value.get("values", ())
            elif name != "encoding":
                yield from _iterate_data_rows(value)
    elif isinstance(spec, list):
        for one in cast("list[Any]", spec):
            yield from _iterate_data_rows(one)


def _recolour_view(view: Any, rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Any:
    """A specification whose colour channels have the run's models as their domain."""
    if isinstance(view, list):
        return [_recolour_view(one, rows, labels) for one in cast("list[Any]", view)]
    if not isinstance(view, Mapping):
        return view
    made = dict(cast("Mapping[str, Any]", view))
    for name, value in made.items():
        if name == "encoding" and "color" in value:
            made[name] = {**value, "color": _recolour_channel(value["color"], rows, labels)}
        elif name not in ("data", "encoding"):
            made[name] = _recolour_view(value, rows, labels)
    return made


def _recolour_channel(
    channel: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> Mapping[str, Any]:
    field = channel.get("field")
    if field not in _WHOSE or channel.get("scale") or channel.get("type") != "nominal":
        return channel
    values = list(dict.fromkeys(str(row[field]) for row in rows if row.get(field) is not None))
    places = [_find_model_index(value, labels) for value in values]
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
    """The place of a row's model in the run."""
    places = {model.name: place for place, model in enumerate(run.models)}
    return pl.col("model").replace_strict(places, default=len(places), return_dtype=pl.Int64)


def sort_by_k(run: RunData, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``subject`` and ``place`` of the model in the run, in the order of place and k."""
    named = rows.with_columns(subject=run.subject, place=model_order(run))
    return named.sort("place", "k", maintain_order=True)


def group_by_k(rows: pl.DataFrame, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Records with their rows ``by_k``, each in the columns of the row with the smallest k.

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
    """A curve for each answerer and model over k, with a band for the first answerer's interval.

    Args:
        rows: Scores with ``who``, ``subject`` and ``k``.
        order: Answerers as they are listed.
        controls: Their words by the name of the control, where they are the model and its controls.
    """
    several = rows["subject"].n_unique() > 1
    present = [who for who in order if who in set(rows["who"])]
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
        tooltip=[
            alt.Tooltip("subject:N", title=" "),
            alt.Tooltip("who:N", title="answers"),
            alt.Tooltip("k:Q"),
            alt.Tooltip("reading:N", title="right, %"),
        ],
    )
    if several:
        # Models are told apart by colour, as everywhere on the page.
        base = base.encode(color=alt.Color("subject:N", title=None, sort=None))
    elif controls:
        base = base.encode(color=colour_by_meaning("who", controls, present))
    scale = alt.Scale(domain=[0, 1], nice=False)
    y = alt.Y("value:Q", title="right among the first k", axis=alt.Axis(format="%"), scale=scale)
    line = base.mark_line(style="trend").encode(y=y)
    if len(present) > 1 and (several or not controls):
        dashes = alt.Scale(domain=present, range=_DASHES)
        line = line.encode(strokeDash=dash_by_field("who", scale=dashes))
    band = (
        base.transform_filter("datum.banded")
        .transform_filter("isValid(datum.low)")
        .mark_area(style="band")
        .encode(y=alt.Y("low:Q", title="right among the first k"), y2="high:Q")
    )
    layers = alt.layer(band, line, base.mark_point(style="dot", filled=True).encode(y=y))
    return to_vega_lite(layers.properties(height=_HEIGHT))


STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
"""Shares of what a word pays at which the colour of a field changes; less is not drawn."""


_LINE = 16


_MIDDLE = 320


_SIDE = 200


_CELL = 11


_LABEL = 120


_LONGEST = 16


_FOUND = f"var(--model-0, {MODEL_COLOURS['light'][0]})"


_OTHER = f"var(--model-1, {MODEL_COLOURS['light'][1]})"


_MISSED = "var(--muted, #65625b)"


_INK = "var(--ink, #1d1c1a)"


ArcEnds = tuple[str, int, int, int]
"""A relation, and the places of the words asked, looked for and ranked first."""


def render_arcs(words: Sequence[str], shown: Sequence[int], edges: Sequence[ArcEnds]) -> str:
    """Words from top to bottom; arcs to what is ranked first on the right, to what is missed on the left.

    Args:
        words: All words.
        shown: Places of those that are drawn.
        edges: The edges; those with a word that is not drawn are left out.
    """
    width, height = _MIDDLE * 2, _LINE * (len(shown) + 1)
    root = _create_svg(width, height)
    line = {at: _LINE * (row + 1) for row, at in enumerate(shown)}
    for at in shown:
        _add_text(root, words[at], _MIDDLE, line[at] + 4, "middle", 12)
    for name, asked, expected, picked in edges:
        if not {asked, expected, picked} <= line.keys():
            continue
        found = expected == picked
        told = f"{name}: from “{shorten_word(words[asked])}” to “{shorten_word(words[picked])}”"
        style = {"stroke": _FOUND} if found else {"stroke": _OTHER, "stroke-dasharray": "4 3"}
        _add_arc(root, line[asked], line[picked], 1, style, told)
        if not found:
            told = (
                f"{name}: from “{shorten_word(words[asked])}”, looked for “{shorten_word(words[expected])}”"
            )
            _add_arc(root, line[asked], line[expected], -1, {"stroke": _MISSED}, told)
    return ElementTree.tostring(root, encoding="unicode")


def render_heat_map(
    words: Sequence[str], shown: Sequence[int], weights: Float[np.ndarray, "word word"]
) -> str:
    """Rows are the words that pay, columns those that are paid.

    Args:
        words: All words.
        shown: Places of those that are drawn.
        weights: Shares of what a word pays; NaN where there is nothing to show.
    """
    size = _LABEL + _CELL * len(shown) + 4
    root = _create_svg(size, size)
    colours = [background for background, _ in HEAT_COLOURS["light"]]
    for row, at in enumerate(shown):
        middle = _LABEL + _CELL * row + _CELL / 2
        _add_text(root, words[at], _LABEL - 4, middle + 3, "end", 9)
        _add_text(root, words[at], 0, 3, "start", 9, f"translate({middle} {_LABEL - 4}) rotate(-90)")
        for column, other in enumerate(shown):
            share = float(weights[at, other])
            # NaN is never at or above a bound.
            step = sum(share >= bound for bound in STEPS)
            if not step:
                continue
            place = {"x": str(_LABEL + _CELL * column), "y": str(_LABEL + _CELL * row)}
            fill = f"var(--heat-{step}, {colours[step]})"
            side = {"width": str(_CELL), "height": str(_CELL)}
            field = ElementTree.SubElement(root, "rect", {**place, **side, "fill": fill})
            told = ElementTree.SubElement(field, "title")
            told.text = (
                f"“{shorten_word(words[at])}” to “{shorten_word(words[other])}”: {number(100 * share, 0)} %"
            )
    frame = {"x": str(_LABEL), "y": str(_LABEL), "fill": "none", "stroke": "var(--line, #e3dfd6)"}
    inner = str(_CELL * len(shown))
    ElementTree.SubElement(root, "rect", {**frame, "width": inner, "height": inner})
    return ElementTree.tostring(root, encoding="unicode")


def shorten_word(word: str) -> str:
    r"""A word as it can be shown: blanks as signs, long ones cut, nothing that XML does not hold.

    >>> shorten_word("    "), shorten_word("x" * 20), shorten_word("a\x0cb")
    ('␣␣␣␣', 'xxxxxxxxxxxxxxx…', 'a·b')
    """
    signs = word.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣")
    clean = collapse_blanks("".join(sign if sign.isprintable() else "·" for sign in signs))
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…"


def _create_svg(width: int, height: int) -> ElementTree.Element:
    shape = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    more = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": MONO}
    return ElementTree.Element("svg", {**more, **shape})


def _add_text(
    root: ElementTree.Element, word: str, x: float, y: float, anchor: str, size: int, moved: str = ""
) -> None:
    place = {"x": str(x), "y": str(y), "text-anchor": anchor, "font-size": str(size), "fill": _INK}
    element = ElementTree.SubElement(root, "text", {**place, **({"transform": moved} if moved else {})})
    element.text = shorten_word(word)


def _add_arc(
    root: ElementTree.Element, start: int, end: int, direction: int, style: dict[str, str], told: str
) -> None:
    edge = _MIDDLE + direction * 75
    reach = edge + direction * min(_SIDE, 12 + abs(end - start) // 2)
    path = f"M {edge} {start} C {reach} {start} {reach} {end} {edge} {end}"
    arc = ElementTree.SubElement(root, "path", {"d": path, "fill": "none", "stroke-width": "1.6", **style})
    dot = {"cx": str(edge), "cy": str(end), "r": "2.5", "fill": style["stroke"]}
    ElementTree.SubElement(root, "circle", dot)
    ElementTree.SubElement(arc, "title").text = told
