"""Where erasing a property costs the most: by construct and keyword, beside directions as wide."""

from __future__ import annotations

import polars as pl

from sonde.lenses.causal.findings import NAMES, WIDE
from sonde.report.charts import plot_differences
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.results.tables import Column, Table, score_columns

LENS = "causal"


SHOWN = 12
"""Constructs of a chart, those of the largest difference; the table has all."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a property."""
    charts: list[Chart] = []
    for place, ((task, language), part) in enumerate(
        rows.partition_by("task", "language", as_dict=True, maintain_order=True).items()
    ):
        name = NAMES.get(str(task), str(task))
        of = f"{name}, {language}" if len(run.languages) > 1 else name
        order = (part.group_by("label").agg(pl.col("value").max()).sort("value", "label", descending=True))[
            "label"
        ].to_list()[:SHOWN]
        shown = part.filter(pl.col("label").is_in(order)).with_columns(name=pl.col("label"))
        charts.append(
            Chart(
                name=f"causal-constructs-{place}",
                title=f"Bits beyond directions as wide, {of}",
                spec=plot_differences(shown, order, "bits per subword"),
            )
        )
    return Figure(charts=charts, table=_build_table(rows))


def _build_table(rows: pl.DataFrame) -> Table:
    return Table(
        summary="Every construct",
        columns=[
            Column(title="Property", value=lambda row: NAMES.get(row["task"], row["task"])),
            Column(title="Model", value="shown"),
            Column(title="Construct", value="label"),
            *score_columns("Bits beyond directions as wide", digits=3),
        ],
        rows=rows.sort("value", descending=True),
    )


plot = SectionPlot(
    title="Interventions: where erasure costs",
    lens=LENS,
    order=351,
    caption=(
        "Bits per subword beyond as many directions as wide, at the layer chosen on validation, by what the "
        "subword belongs to: keywords by themselves, all else by the innermost construct around it. Many "
        "constructs are looked at, so that a few lie beyond their interval by chance; the one that a "
        "sentence names was chosen on validation."
    ),
    select=lambda run: run.scores(metrics=["excess"], by="construct", lens=LENS, controls=True).filter(
        (pl.col("control") == WIDE) & (pl.col("split") == "test") & pl.col("ci_low").is_not_null()
    ),
    figure=_draw,
)
