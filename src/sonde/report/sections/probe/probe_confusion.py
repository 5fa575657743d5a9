"""Which classes a probe takes for which, at the layer chosen on validation."""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.report.charts import plot_confusions
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import LENS, list_qualifiers, read_with_controls
from sonde.report.text import family_order, list_mistakes, task_label
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, MODEL, Column, N, Table
from sonde.results.text_format import PERCENT_WITH_INTERVAL

_SHOWN = 3
"""Classes from which a matrix says more than an accuracy."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One matrix a model, task and language."""
    ordered = rows.sort(family_order(rows), maintain_order=True)
    parts = ordered.partition_by("task", "model", "language", maintain_order=True)
    classes = [part["gold"].unique(maintain_order=True).to_list() for part in parts]
    return Figure(
        charts=[
            _build_chart(run, part, golds)
            for part, golds in zip(parts, classes, strict=True)
            if len(golds) >= _SHOWN
        ],
        table=Table(
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
            rows=[_row(part, gold) for part, golds in zip(parts, classes, strict=True) for gold in golds],
        ),
    )


def _build_chart(run: RunData, rows: pl.DataFrame, classes: list[str]) -> Chart:
    row = rows.row(0, named=True)
    return Chart(
        name="-".join(["probe-confusion", row["task"], *list_qualifiers(run, row, slugs=True)]),
        title=", ".join([row["name"], *list_qualifiers(run, row)]),
        spec=plot_confusions(rows, classes),
    )


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
