"""Which classes a probe takes for which, at the layer chosen on validation."""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.report.charts import plot_confusions
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import LENS, read_with_controls
from sonde.report.text import list_mistakes, sort_by_family, task_label
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, MODEL, Column, N, Table
from sonde.results.text_format import PERCENT_WITH_INTERVAL

_SHOWN = 3
"""Classes from which a matrix says more than an accuracy."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One matrix a model, task and language."""
    parts = rows.partition_by("task", "model", "language", as_dict=True)
    charts: list[Chart] = []
    records: list[dict[str, Any]] = []
    place = {task: at for at, task in enumerate(sort_by_family(rows["task"].to_list()))}
    for (_, _, language), part in sorted(parts.items(), key=lambda entry: place[str(entry[0][0])]):
        if part["gold"].n_unique() >= _SHOWN:
            charts.append(_build_chart(run, part, str(language)))
        records += [_row(part, gold) for gold in _classes(part)]
    table = Table(
        summary="Every class, and the wrong classes predicted for it",
        columns=[
            Column(title="Task", value=lambda row: task_label(row["task"])),
            MODEL,
            LANGUAGE,
            Column(title="Class", value="gold", help="The true class."),
            Column(title="Right, %", value="right", format=PERCENT_WITH_INTERVAL),
            Column(
                title="Wrongly predicted as, %",
                value="wrong",
                help="Up to three wrong classes in order of their shares, each with its interval.",
            ),
            N,
        ],
        rows=records,
    )
    return Figure(charts=charts, table=table)


def _classes(rows: pl.DataFrame) -> list[str]:
    return rows["gold"].unique(maintain_order=True).to_list()


def _build_chart(run: RunData, rows: pl.DataFrame, language: str) -> Chart:
    row = rows.row(0, named=True)
    several = len(run.languages) > 1
    slug = next((model.slug for model in run.models if model.name == row["model"]), "")
    name = [
        "probe-confusion",
        row["task"],
        *([slug] if run.several else []),
        *([language] if several else []),
    ]
    of = [row["name"], *([row["shown"]] if run.several else []), *([language] if several else [])]
    return Chart(name="-".join(name), title=", ".join(of), spec=plot_confusions(rows, _classes(rows)))


def _row(rows: pl.DataFrame, gold: str) -> dict[str, Any]:
    own = rows.filter(pl.col("gold") == gold)
    right = own.filter(pl.col("said") == gold).to_dicts()
    return {**own.row(0, named=True), "right": right[0] if right else 0.0, "wrong": list_mistakes(own)}


plot = SectionPlot(
    title="Confusions: which classes are taken for which",
    lens=LENS,
    order=240,
    caption=(
        "Of the test examples of a class (a row), the share that the probe gives to each class (a column). "
        "Tasks of two classes are in the table only."
    ),
    select=lambda run: read_with_controls(run, ["confusion"]).with_columns(
        gold=dimension_value("gold"), said=dimension_value("predicted")
    ),
    figure=_draw,
)
