"""Costs of erasing a property by construct and keyword, compared with matched directions."""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.lenses.causal.findings import NAMES, WIDE
from sonde.report.charts import plot_differences
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS, PROPERTY
from sonde.results.tables import MODEL, Column, Table, score_columns

MAX_CONSTRUCTS = 12
"""Maximum number of constructs in a chart, largest differences first; the table has all."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one chart per property and language."""
    parts = rows.partition_by("task", "language", as_dict=True, maintain_order=True)
    show_language = len(run.languages) > 1
    return Figure(
        charts=[
            Chart(
                name=f"causal-constructs-{index}",
                title=(
                    f"Bits beyond matched directions, {NAMES.get(str(task), str(task))}"
                    f"{f', {language}' if show_language else ''}"
                ),
                spec=_build_spec(part),
            )
            for index, ((task, language), part) in enumerate(parts.items())
        ],
        table=Table(
            summary="Every construct",
            columns=[
                PROPERTY,
                MODEL,
                Column(title="Construct", value="label"),
                *score_columns("Bits beyond matched directions", digits=3, n="Subwords"),
            ],
            rows=rows.sort("value", descending=True),
        ),
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    largest = rows.group_by("label").agg(pl.col("value").max()).sort("value", "label", descending=True)
    order = largest["label"].head(MAX_CONSTRUCTS).to_list()
    largest_rows = rows.filter(pl.col("label").is_in(order)).with_columns(name=pl.col("label"))
    return plot_differences(largest_rows, order, "bits per subword", "subwords")


plot = SectionPlot(
    title="Interventions: where erasure costs",
    lens=LENS,
    order=351,
    caption=(
        "Bits per subword beyond matched directions, at the layer chosen on validation, by what the "
        "subword belongs to: keywords separately, all else by the innermost construct around it. With many "
        "constructs, a few lie beyond their interval by chance. A construct that a sentence names was "
        "chosen on validation."
    ),
    select=lambda run: run.scores(metrics=["excess"], by="construct", lens=LENS, controls=True).filter(
        (pl.col("control") == WIDE) & (pl.col("split") == "test") & pl.col("ci_low").is_not_null()
    ),
    figure=_draw,
)
