"""Parts that several charts share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.theme import KIND_RANGE, MEANING_RANGE, MEANINGS
from sonde.report._shared.numbers import no_verdict, number, with_interval


def specification(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """A chart as a Vega-Lite specification; not held against the schema, which the tests do once for all."""
    return chart.to_dict(validate=False)


def by_meaning(
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


def by_kind(field: str, title: str | None = None) -> alt.Color:
    """The colour of what is neither a model nor a control, such as kinds of word."""
    return alt.Color(f"{field}:N", title=title, sort=None, scale=alt.Scale(range=KIND_RANGE))


def by_dashes(field: str, **look: Any) -> alt.StrokeDash:
    """The dashes of a line, in a legend of their own below the chart: colours have theirs above.

    Args:
        field: Column that holds the words.
        look: Which dashes stand for which word, where that is not left open.
    """
    # Grey is told from either background.
    legend = alt.Legend(symbolType="stroke", symbolStrokeColor="#888888", symbolSize=600, orient="bottom")
    return alt.StrokeDash(f"{field}:N", title=None, sort=None, legend=legend, **look)


def dots(
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
            "few": no_verdict(row),
            "clusters": row["n_clusters"],
        }
        for row in rows.iter_rows(named=True)
    ]
    several = rows["shown"].n_unique() > 1
    y = alt.Y("name:N", sort=order, title=None)
    y = y.axis(labelLimit=names) if names else y
    base = alt.Chart(alt.Data(values=records)).encode(
        y=y,
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            *([alt.Tooltip("model:N", title="model")] if several else []),
            alt.Tooltip("reading:N", title=unit),
            alt.Tooltip("count:N", title="n"),
            alt.Tooltip("clusters:Q", title="clusters"),
        ],
    )
    if several:
        base = base.encode(
            color=alt.Color("model:N", title=None, sort=None), yOffset=alt.YOffset("model:N", sort=None)
        )
    room = 1.0 if several else 1.22
    axis = alt.Scale(zero=True, nice=False, domain=[0, reach * room]) if reach else alt.Scale(zero=True)
    x = alt.X("value:Q", title=unit, scale=axis)
    layers: list[alt.Chart] = [
        base.mark_rule(style="interval", clip=True).encode(
            x=alt.X("low:Q", title=unit, scale=axis), x2="high:Q"
        ),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    if reach and not several:
        label = base.mark_text(style="note", align="left", dx=8)
        layers.append(label.encode(x=alt.value("width"), text="number:N"))
    if reference is not None:
        line = alt.Chart(alt.Data(values=[{"mean": reference, "text": f"{stands_for} {number(reference)}"}]))
        layers.insert(0, line.mark_rule(style="reference").encode(x="mean:Q"))
        text = line.mark_text(style="note", align="left", dx=4, baseline="bottom", dy=-3)
        layers.append(text.encode(x="mean:Q", y=alt.value(0), text="text:N"))
    lines = rows["shown"].n_unique()
    return specification(alt.layer(*layers).properties(height=row_height(lines)))


def differences(
    rows: pl.DataFrame, order: list[str], unit: str, scale: float = 1.0, *, names: int = 0
) -> dict[str, Any]:
    """Dots with intervals, as `dots`, around a dashed line at zero."""
    spec = dots(rows, order, unit, scale=scale, names=names)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(x="zero:Q")
    line = {key: value for key, value in zero.to_dict().items() if key in ("data", "mark", "encoding")}
    spec["layer"].insert(0, line)
    return spec


def confusions(rows: pl.DataFrame, order: list[str], angle: int = 0) -> dict[str, Any]:
    """A matrix of classes: the share of a class (a row) that is given to each class (a column).

    Args:
        rows: Columns ``gold``, ``said``, ``value`` (a share) and ``n`` (examples of the class).
        order: The classes.
        angle: Of the columns' names, in degrees.
    """
    scale = alt.Scale(domain=order)
    base = alt.Chart(alt.Data(values=rows.select("gold", "said", "value", "n").to_dicts())).encode(
        x=alt.X("said:N", scale=scale, title="predicted", axis=alt.Axis(labelAngle=angle)),
        y=alt.Y("gold:N", scale=scale, title="class"),
        color=alt.Color("value:Q", title="share", scale=alt.Scale(domain=[0, 1]), legend=None),
        tooltip=[
            alt.Tooltip("gold:N", title="class"),
            alt.Tooltip("said:N", title="predicted"),
            alt.Tooltip("value:Q", format=".1%", title="share"),
            alt.Tooltip("n:Q", format=",", title="examples of the class"),
        ],
    )
    return specification(base.mark_rect().properties(height=alt.Step(20)))


def written(cells: alt.Chart, text: str, columns: int, size: int = 11) -> list[alt.Chart]:
    """Text in cells that are coloured by a share, ``value``: dark or light as stands out, cut to a column."""
    room = alt.ExprRef(f"width / {columns} - 4")
    return [
        cells.transform_filter(f"datum.value {side} 0.6")
        .mark_text(style=style, fontSize=size, limit=room)
        .encode(text=text)
        for side, style in (("<=", "name"), (">", "reversed"))
    ]


def row_height(lines: int) -> alt.Step:
    """Height of one row of a chart that holds this many lines side by side."""
    return alt.Step(max(24, 13 * lines + 8), **{"for": "position"})
