"""Accuracy by layer and task, and the layers at which a property is encoded (INSPECT, 6.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from sonde.base.formatting import format_name
from sonde.report.charts import layer_axis, list_tooltips, plot_heat_map, plot_lines
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import (
    ENCODED,
    LENS,
    SURFACE,
    format_row_label,
    get_key,
    list_qualifiers,
    read_headline,
    read_layer_summaries,
)
from sonde.report.text import family_order
from sonde.results.extremes import list_layers
from sonde.results.layers import STATUSES, THIRDS, LayerSummary
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import COUNT, with_interval
from sonde.store.run_folder import slug

_CHOSEN_MARK, _TIED_MARK = "●", "○"


_PALE = ("absent", "slight", "open")
"""Statuses of tasks without a verdict by layer, which are drawn in one colour."""


def _draw(run: RunData, rows: list[dict[str, Any]]) -> Figure:
    """Draw a line chart per task and language, and a heat map of all tasks per model and language."""
    groups = [
        [row for row in rows if (row["model"], row["language"]) == (model.name, language)]
        for model in run.models
        for language in run.languages
    ]
    parts = [part for part in groups if part]
    return Figure(
        answer="\n".join(_describe_layers(format_row_label(run, part[0]), part) for part in parts),
        charts=[
            *(_build_chart(run, part) for part in parts if len(part) >= _MIN_MAPPED_TASKS),
            *_build_line_charts(run, rows),
        ],
        table=Table(
            summary="Every layer and its control",
            columns=[
                Column(title="Task", value="name"),
                MODEL,
                LANGUAGE,
                Column(title="Layer", value="layer", format=COUNT, help="0 is the embedding."),
                *estimate_columns("Accuracy, %", 1, 100),
                Column(
                    title="Best surface",
                    value=lambda row: row["surface"] and row["surface"]["control"].replace("_", " "),
                    help="The best guess from the text on validation, without a model.",
                ),
                SURFACE,
                *estimate_columns("Gain, points", 1, 100, key="gain", interval="Interval of the gain"),
                *estimate_columns(
                    "Against the chosen, points",
                    1,
                    100,
                    key="difference",
                    interval="Interval of the difference",
                    help="Accuracy less that of the layer that validation chose, on the same examples.",
                ),
                Column(
                    title="Chosen", value=lambda row: "yes" if row["chosen"] else "", help="On validation."
                ),
                Column(
                    title="Surely less accurate",
                    value=lambda row: None if row["tied"] is None else "" if row["tied"] else "yes",
                    help="Than the chosen layer, at a level that holds for all layers together.",
                ),
                *size_columns("Examples"),
                ENCODED,
            ],
            rows=[record for row in rows for record in _list_layers(row)],
        ),
    )


def _read_rows(run: RunData) -> list[dict[str, Any]]:
    """Read the tasks whose layers were scored, each with its `LayerSummary` as ``account``."""
    summaries = read_layer_summaries(run)
    rows = read_headline(run)
    sorted_rows = rows.sort(family_order(rows), maintain_order=True) if len(rows) else rows
    tasks = [{**row, "account": summaries[get_key(row)]} for row in sorted_rows.iter_rows(named=True)]
    return [row for row in tasks if row["account"].layers]


def _list_layers(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    summary: LayerSummary = row["account"]
    for layer_score in summary.layers:
        yield {
            **layer_score.accuracy,
            "name": row["name"],
            "shown": row["shown"],
            "chosen": layer_score.layer == summary.chosen,
            "tied": None if summary.tied is None else layer_score.layer in summary.tied,
            "surface": summary.control,
            "gain": layer_score.gain,
            "difference": layer_score.difference,
            "encoded": summary.describe(),
        }


def _build_chart(run: RunData, rows: list[dict[str, Any]]) -> Chart:
    records = [record for row in rows for record in _build_records(row, row["account"])]
    return Chart(
        name="-".join(["probe-layers", *list_qualifiers(run, rows[0], slugs=True)]),
        title=", ".join(["Accuracy by layer and task", *list_qualifiers(run, rows[0])]),
        spec=plot_heat_map(
            records,
            layer_axis(),
            alt.Y("name:N", sort=[row["name"] for row in rows], title=None),
            {
                "name:N": " ",
                "family:N": "",
                "layer:O": "",
                "reading:N": "accuracy, %",
                "gain:N": "over the best surface, points",
                "encoded:N": "where",
            },
            legend="lowest to highest",
            text="mark",
            columns=len({record["layer"] for record in records}),
        ),
        wide=True,
    )


_MIN_MAPPED_TASKS = 3
"""Tasks from which on a heat map sets them side by side."""


def _build_line_charts(run: RunData, rows: list[dict[str, Any]]) -> Iterator[Chart]:
    """Build a chart per task and language: a line per model, with the baseline that validation chose."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault((row["task"], row["language"]), []).append(row)
    for (task, language), part in parts.items():
        qualifiers = [language] if len(run.languages) > 1 else []
        yield Chart(
            name=slug("-".join(["probe-layer-lines", task, *qualifiers])),
            title=", ".join([f"Accuracy by layer, {part[0]['name']}", *qualifiers]),
            spec=_plot_layer_lines(part),
        )


def _plot_layer_lines(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Plot the accuracy of every layer with its interval, over the band of the baseline."""
    records = [
        {**record, "low": layer_score.accuracy["ci_low"], "high": layer_score.accuracy["ci_high"]}
        for row in rows
        for record, layer_score in zip(
            _build_records(row, row["account"]), row["account"].layers, strict=True
        )
    ]
    tooltip = {"shown:N": "model", "layer:O": "", "reading:N": "accuracy, %", "encoded:N": "where"}
    base = alt.Chart(alt.Data(values=records)).encode(x=layer_axis(), tooltip=list_tooltips(tooltip))
    if len({record["shown"] for record in records}) > 1:
        base = base.encode(color=alt.Color("shown:N", title=None, sort=None))
    y = alt.Y("accuracy:Q", title="accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    marks = [
        base.transform_filter(f"datum.mark == '{mark}'").mark_point(style=style, filled=filled).encode(y=y)
        for mark, style, filled in ((_CHOSEN_MARK, "dot", True), (_TIED_MARK, "few", False))
    ]
    return plot_lines(
        base,
        y,
        band=alt.Y("low:Q", title="accuracy"),
        points=False,
        height=200,
        layers_above=[*_build_baseline_layers(rows), *marks],
    )


def _build_baseline_layers(rows: list[dict[str, Any]]) -> list[alt.Chart]:
    """Build the band and the dashed line of the baseline; empty where models have different ones.

    Validation chooses the baseline by model, and models may read different examples.
    """
    controls = [row["account"].control for row in rows]
    if any(control is None for control in controls):
        return []
    control, *others = controls
    columns = ("control", "value", "ci_low", "ci_high")
    if any(other[name] != control[name] for other in others for name in columns):
        return []
    layers = sorted({layer_score.layer for row in rows for layer_score in row["account"].layers})
    text = f"{format_name(control['control'])} {with_interval(control, 100, 1)} %"
    records = [
        {
            "layer": layer,
            "baseline": control["value"],
            "low": control["ci_low"],
            "high": control["ci_high"],
            "control": text,
        }
        for layer in layers
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=layer_axis(), tooltip=list_tooltips({"control:N": "best baseline"})
    )
    return [
        base.mark_area(style=["band", "neutral"]).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(style="reference").encode(y="baseline:Q"),
    ]


def _build_records(row: Mapping[str, Any], summary: LayerSummary) -> Iterator[dict[str, Any]]:
    """Yield the chart's record of each layer of a task; ``value`` is the colour."""
    accuracies = [layer_score.accuracy["value"] for layer_score in summary.layers]
    low, high = min(accuracies), max(accuracies)
    pale = summary.status in _PALE
    for layer_score, value in zip(summary.layers, accuracies, strict=True):
        mark = _CHOSEN_MARK if layer_score.layer == summary.chosen else _TIED_MARK
        yield {
            "name": row["name"],
            "shown": row["shown"],
            "family": row["family"],
            "layer": layer_score.layer,
            "value": 0.0 if pale else (value - low) / (high - low) if high > low else 0.5,
            "mark": mark if layer_score.layer in summary.named else "",
            "accuracy": value,
            "reading": with_interval(layer_score.accuracy, 100, 1),
            "gain": None if layer_score.gain is None else with_interval(layer_score.gain, 100, 1),
            "encoded": summary.describe(),
        }


_DEPTHS = {
    **dict(zip(THIRDS, ("encoded early", "encoded in the middle", "encoded late"), strict=True)),
    "several": "encoded in more than one third",
    "shallow": "encoded",
    "uncompared": "encoded, layers not compared by the version that scored",
}
"""Descriptions of the depth at which a task is encoded, in the order of a sentence."""


def _describe_layers(label: str, rows: list[dict[str, Any]]) -> str:
    """Describe which tasks are encoded at which depth, and which are not."""
    tasks: dict[str, list[str]] = {depth: [] for depth in _DEPTHS.values()}
    for row in rows:
        summary: LayerSummary = row["account"]
        depth = summary.third or ("several" if len(summary.layers) >= len(THIRDS) else "shallow")
        status = _DEPTHS["uncompared" if summary.tied is None else depth]
        status = status if summary.status == "encoded" else STATUSES[summary.status]
        layers = f" ({_name_layers(summary)})" if summary.named else ""
        tasks.setdefault(status, []).append(f"{row['name']}{layers}")
    sentence = "; ".join(f"{status}: {', '.join(names)}" for status, names in tasks.items() if names)
    return f"{label}: {sentence}." if label else f"{sentence[:1].upper()}{sentence[1:]}."


def _name_layers(summary: LayerSummary) -> str:
    """Name the selected layer and the set of layers that it is from."""
    layers = list_layers(summary.named)
    if summary.chosen not in summary.named or len(summary.named) == 1:
        return layers
    return f"{list_layers([summary.chosen])} of {layers.removeprefix('layers ')}"


plot = SectionPlot(
    title="Layers: where it is encoded",
    lens=LENS,
    order=210,
    caption=(
        "Test accuracy of every layer with its 95 % interval; layer 0 is the embedding. The grey band is the"
        " interval of the surface baseline that validation chose, if all models have the same one. A filled "
        "dot is the layer that validation chose (with folds, the choice of most folds). Hollow dots are "
        "layers that are not surely less accurate, paired by example, at a level that holds for all layers "
        "together. A task is encoded if the chosen layer is surely more accurate than the baseline, or any "
        "other layer is at such a level. It is encoded early, in the middle or late if all its dots lie in "
        "that third of the depth. The map of three or more tasks runs from the lowest to the highest "
        "accuracy of each task; a task that is not encoded is pale."
    ),
    select=_read_rows,
    figure=_draw,
)
