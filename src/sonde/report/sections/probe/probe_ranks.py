"""Ranks of layers by accuracy, averaged over models or over tasks (INSPECT, section 6.3)."""

from __future__ import annotations

import polars as pl

from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.probe import LENS, read_layers
from sonde.report.text import task_label
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, Number, Sparkline


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Build the table of ranks by task and by model."""
    records = [
        {
            "name": task_label(str(key)) if column == "task" else part["shown"][0],
            "over": counterpart,
            "ranks": dict(part.sort("layer").select("layer", "rank").iter_rows()),
            "depth": depth,
        }
        for column, counterpart in (("task", "models"), ("model", "tasks"))
        for (key, depth), part in (
            _compute_ranks(rows, column)
            .partition_by(column, "depth", as_dict=True, maintain_order=True)
            .items()
        )
    ]
    return Figure(
        table=Table(
            summary="Ranks of layers",
            columns=[
                Column(title="Of", value="name"),
                Column(title="Averaged over", value="over"),
                Column(
                    title="Ranks by layer",
                    value=lambda row: list(row["ranks"].values()),
                    format=Sparkline(),
                    help="The higher, the better the layer.",
                ),
                Column(title="Layers", value="depth", format=COUNT, help="How many layers the model has."),
                *(
                    Column(
                        title=f"Layer {layer}",
                        value=lambda row, layer=layer: row["ranks"].get(layer),
                        format=Number(digits=1, missing=""),
                        help="Its mean rank; the best layer has the highest.",
                    )
                    for layer in sorted({layer for record in records for layer in record["ranks"]})
                ),
            ],
            rows=records,
        )
    )


def _compute_ranks(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Compute the mean rank of each layer by `column`, over models of the same number of layers."""
    key = ["model", "task", "language"]
    ranks = rows.with_columns(
        rank=pl.col("value").rank("average").over(key), depth=pl.col("layer").max().over(key)
    )
    groups = ranks.group_by(column, "depth", "layer", maintain_order=True)
    return groups.agg(pl.col("rank").mean(), pl.col("name", "shown", "family").first()).sort("depth", "layer")


plot = SectionPlot(
    title="Layers: ranks",
    lens=LENS,
    order=211,
    caption=(
        "Layers are ranked within each task by their test accuracy (higher is better), and ranks are "
        "averaged over models or over tasks, as in the paper. A rank does not say how far layers lie "
        "apart, nor whether they differ: with meaningless labels, some layer still ranks first. The "
        "sections above say where a task is encoded."
    ),
    select=read_layers,
    figure=_draw,
)
