"""Confusions of a probe: which classes it takes for which, at the layer chosen on validation."""

from __future__ import annotations

import polars as pl

from sonde.report.charts import build_confusions
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.probe import LENS, list_qualifiers, read_with_controls
from sonde.report.text import family_order
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, MODEL, Column


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one confusion matrix per model, task and language."""
    sorted_rows = rows.sort(family_order(rows), maintain_order=True)
    return build_confusions(
        [
            (
                "-".join(["probe-confusion", row["task"], *list_qualifiers(run, row, slugs=True)]),
                ", ".join([row["name"], *list_qualifiers(run, row)]),
                part,
            )
            for part in sorted_rows.partition_by("task", "model", "language", maintain_order=True)
            for row in (part.row(0, named=True),)
        ],
        [Column(title="Task", value="name"), MODEL, LANGUAGE],
        minimum=3,
    )


plot = SectionPlot(
    title="Confusions: which classes are taken for which",
    lens=LENS,
    order=240,
    caption=(
        "Each row is a class; its cells show how many per cent of the test examples of the class the probe "
        "assigns to each class. Tasks with two classes are only in the table."
    ),
    select=lambda run: read_with_controls(run, ["confusion"]).with_columns(
        gold=dimension_value("gold"), said=dimension_value("predicted")
    ),
    figure=_draw,
)
