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

_MIN_CLASSES = 3
"""Minimum number of classes for which a matrix is drawn; for fewer, accuracy says as much."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one confusion matrix per model, task and language."""
    sorted_rows = rows.sort(family_order(rows), maintain_order=True)
    parts = sorted_rows.partition_by("task", "model", "language", maintain_order=True)
    classes = [part["gold"].unique(maintain_order=True).to_list() for part in parts]
    return Figure(
        charts=[
            _build_chart(run, part, golds)
            for part, golds in zip(parts, classes, strict=True)
            if len(golds) >= _MIN_CLASSES
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
            rows=[
                _build_row(part, gold) for part, golds in zip(parts, classes, strict=True) for gold in golds
            ],
        ),
    )


def _build_chart(run: RunData, rows: pl.DataFrame, classes: list[str]) -> Chart:
    row = rows.row(0, named=True)
    return Chart(
        name="-".join(["probe-confusion", row["task"], *list_qualifiers(run, row, slugs=True)]),
        title=", ".join([row["name"], *list_qualifiers(run, row)]),
        spec=plot_confusions(rows, classes),
    )


def _build_row(rows: pl.DataFrame, gold: str) -> dict[str, Any]:
    class_rows = rows.filter(pl.col("gold") == gold)
    right = class_rows.filter(pl.col("said") == gold).to_dicts()
    return {
        **class_rows.row(0, named=True),
        "right": right[0] if right else 0.0,
        "wrong": list_mistakes(class_rows),
    }


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
