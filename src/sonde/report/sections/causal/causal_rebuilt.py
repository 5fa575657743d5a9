"""Accuracy of new probes after an erasure, in functions that its map was not fitted to, by layer."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.lenses.causal.findings import NAMES, select_reprobing_scores
from sonde.report.charts import layer_axis, plot_heat_map
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS, PROPERTY, read_all_scores
from sonde.results.tables import Column, Table, score_columns
from sonde.results.text_format import COUNT, verdict_mark, with_interval


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one heat map per property, model and language."""
    subject_rows = rows.with_columns(
        subject=pl.concat_str(
            pl.col("task").replace(NAMES),
            *([pl.col("shown")] if run.several else []),
            *([pl.col("language")] if len(run.languages) > 1 else []),
            separator=", ",
        )
    )
    probes = subject_rows.filter(pl.col("control").is_null())
    majorities = subject_rows.filter(pl.col("control") == "majority")
    parts = probes.partition_by("model", "language", "task", maintain_order=True)
    sentences = (_format_sentence(part, majorities) for part in parts)
    return Figure(
        answer="\n".join(filter(None, sentences)),
        charts=[
            Chart(
                name=f"causal-rebuilt-{index}",
                title=f"Probes, {part['subject'][0]}",
                spec=_build_spec(part),
            )
            for index, part in enumerate(parts)
        ],
        table=Table(
            summary="Every layer erased and read, in % of the tested examples",
            columns=[
                PROPERTY,
                Column(title="What", value=lambda row: "commonest class" if row["control"] else "probe"),
                Column(
                    title="Erased at layer",
                    value=lambda row: row["erased"] if row["erased"] >= 0 else "none",
                ),
                Column(title="Read at", value="layer", format=COUNT),
                *score_columns("Right, %", digits=1, scale=100, n="Examples"),
            ],
            rows=rows.sort("task", "erased", "layer", maintain_order=True),
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the accuracies of new probes; none if no property was erased before training."""
    rows = select_reprobing_scores(read_all_scores(run)).filter(pl.col("dimensions").list.len() == 1)
    return rows if (rows.filter(pl.col("control").is_null())["erased"] >= 0).any() else rows.clear()


def _format_sentence(rows: pl.DataFrame, majorities: pl.DataFrame) -> str:
    """Describe the accuracy of probes at the last layer after an erasure at the middle one."""
    last = int(rows["layer"].max())  # type: ignore[arg-type]
    middle = last // 2
    matches = [
        rows.filter(erased=erased_layer, layer=layer).to_dicts()
        for erased_layer, layer in ((-1, last), (middle, middle), (middle, last))
    ]
    if not all(matches):
        return ""
    first = [part[0] for part in matches]
    baseline_text, erased_text, later_text = (f"{with_interval(row, 100, 1)} %" for row in first)
    caveat_text = next(filter(None, map(verdict_mark, first)), "")
    key = {name: rows[name][0] for name in ("model", "language", "task")}
    majority = majorities.filter(**key)["value"].head(1)
    majority_text = "".join(f" (the commonest class {number(100 * value, 1)} %)" for value in majority)
    return (
        f"{rows['subject'][0]}: erased at layer {middle}, a new probe finds {erased_text} "
        f"there{majority_text} and {later_text} at layer {last}, where it finds {baseline_text} "
        f"with nothing erased{caveat_text}."
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    return plot_heat_map(
        [
            {
                "erased": "nothing" if row["erased"] < 0 else str(row["erased"]),
                "layer": row["layer"],
                "value": row["value"],
                "text": f"{100 * row['value']:.0f}",
                "reading": with_interval(row, 100, 1),
            }
            for row in rows.sort("erased", "layer").iter_rows(named=True)
        ],
        layer_axis("layer read"),
        alt.Y("erased:N", title="layer erased", sort=None),
        {"erased:N": "erased at", "layer:O": "read at", "reading:N": "right, %"},
        text="text",
        columns=rows["layer"].n_unique(),
        step=22,
    )


plot = SectionPlot(
    title="Interventions: what later layers rebuild",
    lens=LENS,
    order=352,
    caption=(
        "Accuracy of a new probe on states read at one layer (column) after the property was erased at "
        "another (row). Probes are trained and tested, fold by fold, on functions that the map was not "
        "fitted to; on the others they are at the commonest class by construction. On the diagonal the "
        "property was just erased. Right of it is what later layers rebuild from elsewhere. In the first "
        "row, nothing was erased."
    ),
    select=_read_rows,
    figure=_draw,
)
