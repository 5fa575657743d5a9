"""The number that speaks for a lens, with its intervals, along the dimension that tells most."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import row_height, specification
from sonde.report._shared.numbers import no_verdict
from sonde.report._shared.plot import Chart
from sonde.report._shared.run import RunData
from sonde.results.findings import (
    QUALIFIERS,
    Controls,
    Finding,
    answering,
    control_words,
    controls_of,
    dimension_names,
    dimension_words,
    metric_words,
)
from sonde.results.words import in_figures, plain_words
from sonde.store.rundir import slug

SHOWN = 30
"""Values of a dimension that a chart holds; more cannot be read."""

Row = Mapping[str, Any]


def charts(
    run: RunData, lens: str, rows: pl.DataFrame, found: Sequence[Finding]
) -> tuple[list[Chart], list[str]]:
    """The chart, and what a reader has to know of what it leaves out; none where there is no number.

    Args:
        run: The run.
        lens: Public name of the lens.
        rows: Its scores with ``shown``, those of controls included.
        found: What speaks for it.
    """
    if not found:
        return [], []
    listed = rows.to_dicts()
    asked = _asked(found[0].row)
    own = [row for row in listed if row["control"] is None and _asked(row) == asked]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in own:
        groups.setdefault(dimension_names(row), []).append(row)
    names = max(groups, key=lambda one: (_tells(groups[one]), -len(one)))
    chosen, beside = groups[names], controls_of(listed)
    metric = metric_words(found[0].row)
    by = f" by {' and '.join(plain_words(name) for name in names)}" if names else ""
    title = f"{metric[:1].upper()}{metric[1:]}{by}"
    name = f"{slug(lens)}-numbers"
    if names == ("layer",):
        spec = _along_layers(chosen, beside, _axis(metric))
        return [Chart(name=name, title=title, spec=spec, wide=True)], []
    shown, notes = _capped(run, chosen, names)
    spec = _dots(run, shown, names, beside, _axis(metric))
    return [Chart(name=name, title=title, spec=spec, wide=True)], notes


def _asked(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in QUALIFIERS if name != "chosen"), row["side"])


def _tells(rows: Sequence[Row]) -> float:
    """How far the values of a dimension lie apart, in widths of their intervals; -1 for one value."""
    apart = {(dimension_words(row)) for row in rows}
    if len(apart) < 2:
        return -1.0
    widths = [row["ci_high"] - row["ci_low"] for row in rows if None not in (row["ci_low"], row["ci_high"])]
    width = statistics.fmean(widths) if widths else 0.0
    spread = statistics.pstdev(row["value"] for row in rows)
    return spread / width if width > 0 else 0.0


def _label(run: RunData, row: Row, names: Sequence[str]) -> str:
    """What a line of the chart is about: the value alone where one dimension is drawn."""
    words = dimension_words(row) if names else "everything"
    if len(names) == 1 and row["dimensions"]:
        words = plain_words(row["dimensions"][0]["value"]) or "(empty)"
    return f"{words} \u00b7 {plain_words(row['language'])}" if len(run.languages) > 1 else words


def _capped(run: RunData, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[str]]:
    """The rows of the values with most observations, and what to say of the others."""
    observations: dict[str, int] = {}
    for row in rows:
        label = _label(run, row, names)
        observations[label] = observations.get(label, 0) + (row["n"] or 0)
    if len(observations) <= SHOWN:
        return list(rows), []
    kept = set(sorted(observations, key=lambda one: -observations[one])[:SHOWN])
    note = f"The chart shows the {SHOWN} values with the most observations, of {len(observations):,}."
    return [row for row in rows if _label(run, row, names) in kept], [note]


def _axis(metric: str) -> str:
    """A metric as the title of an axis, which Vega compiles: letters, figures and blanks alone."""
    return re.sub(r"[^\w ]+", " ", metric).strip() or "value"


def _record(row: Row, name: object, beside: Controls) -> dict[str, Any]:
    controls = answering(beside, row)
    return {
        "name": name,
        "model": plain_words(row["shown"]),
        "value": row["value"],
        "low": row["ci_low"],
        "high": row["ci_high"],
        "reading": in_figures(row),
        "count": f"{row['n']:,}",
        "clusters": row["n_clusters"],
        "few": no_verdict(row),
        "control": controls[0]["value"] if controls else None,
        "beside": "; ".join(control_words(one) for one in controls) or "none",
    }


def _tooltip(unit: str, kind: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(f"name:{kind}", title=" "),
        alt.Tooltip("model:N"),
        alt.Tooltip("reading:N", title=unit),
        alt.Tooltip("beside:N", title="control"),
        alt.Tooltip("count:N", title="n"),
        alt.Tooltip("clusters:Q"),
    ]


def _dots(
    run: RunData,
    rows: Sequence[Row],
    names: Sequence[str],
    beside: Controls,
    unit: str,
) -> dict[str, Any]:
    """A line a value of the dimension; models side by side in colours, the first control as a tick."""
    records = [_record(row, _label(run, row, names), beside) for row in rows]
    numeric = all(re.fullmatch(r"-?\d{1,9}", str(one["name"])) for one in records)
    # By number where the values are numbers, else from high to low.
    ranked = sorted(records, key=lambda one: int(one["name"]) if numeric else -one["value"])
    order = list(dict.fromkeys(one["name"] for one in ranked))
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("name:N", sort=order, title=None), tooltip=_tooltip(unit, "N")
    )
    models = {one["model"] for one in records}
    controls = base
    if len(models) > 1:
        controls = base.encode(yOffset=alt.YOffset("model:N", sort=None))
        base = controls.encode(color=alt.Color("model:N", title=None, sort=None))
    x = alt.X("value:Q", title=unit, scale=alt.Scale(zero=False, nice=True))
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(style="interval")
        .encode(x=alt.X("low:Q", title=unit), x2="high:Q"),
        controls.transform_filter("isValid(datum.control)")
        .mark_tick(style="surface")
        .encode(x=alt.X("control:Q", title=unit)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    return specification(alt.layer(*layers).properties(height=row_height(len(models))))


def _along_layers(rows: Sequence[Row], beside: Controls, unit: str) -> dict[str, Any]:
    """Values from layer to layer: a line a model (and language), the first control dashed."""
    several = len({row["language"] for row in rows}) > 1
    records = [
        _record(row, row["layer"], beside)
        | ({"model": f"{plain_words(row['shown'])}, {plain_words(row['language'])}"} if several else {})
        for row in sorted(rows, key=lambda row: row["layer"])
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("name:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1)),
        tooltip=_tooltip(unit, "Q"),
    )
    controls = base.encode(detail="model:N")
    if len({one["model"] for one in records}) > 1:
        base = base.encode(color=alt.Color("model:N", title=None, sort=None))
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False))
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_area(style="band")
        .encode(y=alt.Y("low:Q", title=unit), y2="high:Q"),
        base.mark_line(style="trend").encode(y=y),
        controls.transform_filter("isValid(datum.control)")
        .mark_line(style="surface", strokeDash=[4, 3])
        .encode(y=alt.Y("control:Q", title=unit)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(y=y),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(y=y),
    ]
    return specification(alt.layer(*layers).properties(height=240))
