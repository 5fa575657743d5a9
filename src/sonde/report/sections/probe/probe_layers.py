"""Where in the model a property is: accuracy by layer and task, and what may be said of it (INSPECT, 6.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from sonde.report.charts import label_cells, to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import (
    ENCODED,
    KEY,
    LENS,
    SURFACE,
    format_row_label,
    read_headline,
    read_layer_summaries,
)
from sonde.report.text import sort_by_family, task_label
from sonde.results.extremes import list_layers
from sonde.results.layers import STATUSES, THIRDS, LayerScore, LayerSummary
from sonde.results.tables import CLUSTERS, LANGUAGE, MODEL, Column, N, Table, estimate_columns
from sonde.results.text_format import COUNT, with_interval

_CHOSEN, _TIED = "●", "○"


_PALE = ("absent", "slight", "open")
"""Statuses of tasks of which nothing is said by layer, so that no colour tells layers apart."""


def _draw(run: RunData, models: object) -> Figure | None:
    """One heat map a model and language."""
    found = read_layer_summaries(run)
    rows = [row for row in read_headline(run).iter_rows(named=True) if found[_key(row)].layers]
    if not rows:
        return None
    charts: list[Chart] = []
    said: list[str] = []
    for model in run.models:
        for language in sorted({row["language"] for row in rows if row["model"] == model.name}):
            part = [row for row in rows if (row["model"], row["language"]) == (model.name, language)]
            charts.append(_build_chart(run, model, language, part, found))
            said.append(_describe_layers(format_row_label(run, part[0]), [found[_key(row)] for row in part]))
    return Figure(answer="\n".join(said), charts=charts, table=_build_table(rows, found))


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def _build_chart(
    run: RunData,
    model: ModelInfo,
    language: str,
    rows: list[dict[str, Any]],
    found: Mapping[tuple[str, ...], LayerSummary],
) -> Chart:
    several = len(run.languages) > 1
    name = "-".join(
        ["probe-layers", *([model.slug] if run.several else []), *([language] if several else [])]
    )
    of = ", ".join([*([model.label] if run.several else []), *([language] if several else [])])
    records = [record for row in rows for record in _records(row, found[_key(row)])]
    return Chart(
        name=name,
        title=f"Accuracy by layer and task{f', {of}' if of else ''}",
        spec=_build_spec(records, [task_label(task) for task in sort_by_family(row["task"] for row in rows)]),
        wide=True,
    )


def _records(row: Mapping[str, Any], account: LayerSummary) -> Iterator[dict[str, Any]]:
    """What the chart shows of each layer of a task; ``value`` is the colour."""
    accuracies = [one.accuracy["value"] for one in account.layers]
    low, high = min(accuracies), max(accuracies)
    pale = account.status in _PALE
    for one, value in zip(account.layers, accuracies, strict=True):
        yield {
            "name": row["name"],
            "family": row["family"],
            "layer": one.layer,
            "value": 0.0 if pale else (value - low) / (high - low) if high > low else 0.5,
            "mark": _mark(one, account),
            "accuracy": value,
            "reading": with_interval(one.accuracy, 100, 1),
            "gain": None if one.gain is None else with_interval(one.gain, 100, 1),
            "encoded": account.describe(),
        }


def _mark(one: LayerScore, account: LayerSummary) -> str:
    if one.layer not in account.named:
        return ""
    return _CHOSEN if one.layer == account.chosen else _TIED


def _build_spec(records: list[dict[str, Any]], order: list[str]) -> dict[str, Any]:
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("name:N", sort=order, title=None),
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("family:N"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("reading:N", title="accuracy, %"),
            alt.Tooltip("gain:N", title="over the best surface, points"),
            alt.Tooltip("encoded:N", title="where"),
        ],
    )
    colour = alt.Color("value:Q", title="lowest to highest", legend=alt.Legend(format="%"))
    columns = len({record["layer"] for record in records})
    layers = [base.mark_rect().encode(color=colour), *label_cells(base, "mark:N", columns)]
    return to_vega_lite(alt.layer(*layers).properties(height=alt.Step(20)))


_PLACES = ("encoded early", "encoded in the middle", "encoded late")


_SEVERAL = "encoded in more than one third"


_SHALLOW = "encoded"


_UNCOMPARED = "encoded, layers not compared by the version that scored"


def _describe_layers(who: str, found: list[LayerSummary]) -> str:
    """Which tasks are encoded where, and which are not, as far as can be told."""
    listed: dict[str, list[str]] = {place: [] for place in (*_PLACES, _SEVERAL, _SHALLOW, _UNCOMPARED)}
    by_task = {account.key[1]: account for account in found}
    for task in sort_by_family(by_task):
        account = by_task[task]
        place = _find_depth(account) if account.status == "encoded" else STATUSES[account.status]
        layers = f" ({_name_layers(account)})" if account.named else ""
        listed.setdefault(place, []).append(f"{task_label(task)}{layers}")
    said = "; ".join(f"{place}: {', '.join(names)}" for place, names in listed.items() if names)
    return f"{who}: {said}." if who else f"{said[:1].upper()}{said[1:]}."


def _find_depth(account: LayerSummary) -> str:
    if account.tied is None:
        return _UNCOMPARED
    if account.third:
        return _PLACES[THIRDS.index(account.third)]
    return _SEVERAL if len(account.layers) >= len(THIRDS) else _SHALLOW


def _name_layers(account: LayerSummary) -> str:
    """The chosen layer, and of which set it is."""
    named = list_layers(account.named)
    if account.chosen not in account.named or len(account.named) == 1:
        return named
    return f"{list_layers([account.chosen])} of {named.removeprefix('layers ')}"


def _build_table(rows: list[dict[str, Any]], found: Mapping[tuple[str, ...], LayerSummary]) -> Table:
    by_place = {task: at for at, task in enumerate(sort_by_family(row["task"] for row in rows))}
    records: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: by_place[row["task"]]):
        account = found[_key(row)]
        records += [
            {
                **one.accuracy,
                "name": row["name"],
                "shown": row["shown"],
                "chosen": one.layer == account.chosen,
                "tied": None if account.tied is None else one.layer in account.tied,
                "surface": account.control,
                "gain": one.gain,
                "difference": one.difference,
                "encoded": account.describe(),
            }
            for one in account.layers
        ]
    return Table(
        summary="Every layer beside its control",
        columns=[
            Column(title="Task", value="name"),
            MODEL,
            LANGUAGE,
            Column(title="Layer", value="layer", format=COUNT, help="0 is the embedding."),
            *estimate_columns("Accuracy, %", 1, 100),
            Column(
                title="Best surface",
                value=lambda row: row["surface"] and row["surface"]["control"].replace("_", " "),
                help="The best guess from the text alone on validation, without a model.",
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
            Column(title="Chosen", value=lambda row: "yes" if row["chosen"] else "", help="On validation."),
            Column(
                title="Surely less accurate",
                value=lambda row: None if row["tied"] is None else "" if row["tied"] else "yes",
                help="Than the chosen layer, at a level that holds for all layers together.",
            ),
            N,
            CLUSTERS,
            ENCODED,
        ],
        rows=records,
    )


plot = SectionPlot(
    title="Layers: where it is encoded",
    lens=LENS,
    order=210,
    caption=(
        "Accuracy of every layer on the tested examples, 0 the embeddings; colour runs from the lowest to "
        "the highest accuracy of each task, the number is in the tooltip. A filled dot is the layer that "
        "validation chose (of folds, that of most); hollow dots are those that are not surely less accurate "
        "than what was chosen, paired by example, at a level that holds for all layers together. A task is "
        "encoded if the chosen layer is surely more accurate than the surface baseline that validation "
        "chose, or any other layer is at such a level; a task that is not is pale, without dots. It is "
        "encoded early, in the middle or late if all its dots lie in that third of the depth."
    ),
    select=lambda run: run.models,
    figure=_draw,
)
