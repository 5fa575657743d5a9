"""How accuracy grows with the data set: at 100, 1,000 and 10,000 examples and at all there are."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_kind, to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import KEY, LENS, read_headline, read_with_controls
from sonde.report.text import sort_by_family, task_label
from sonde.results.schema import has_dimension_names
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a model."""
    charts = [
        Chart(
            name=f"probe-sizes-{model.slug}" if run.several else "probe-sizes",
            title=f"Accuracy by size{f', {model.label}' if run.several else ''}",
            spec=_build_spec(part, several=len(run.languages) > 1),
            wide=True,
        )
        for model in run.models
        if not (part := _select_model(rows, model)).is_empty()
    ]
    return Figure(charts=charts, table=_build_table(rows))


def _select_model(rows: pl.DataFrame, model: ModelInfo) -> pl.DataFrame:
    return rows.filter(pl.col("model") == model.name)


def _read_rows(run: RunData) -> pl.DataFrame:
    """Scores of the drawn sizes, and the headline as that of all examples."""
    drawn = read_with_controls(run, ["accuracy"], has_dimension_names("size"), split="test").with_columns(
        size="k"
    )
    sizes = read_with_controls(run, ["coverage"]).select(
        *KEY, (pl.col("n") * pl.col("value")).round().cast(pl.Int64).alias("size")
    )
    whole = read_headline(run).join(sizes, on=KEY)
    held = drawn.select(*KEY).unique()
    columns = [name for name in drawn.columns if name in whole.columns]
    both = pl.concat([drawn.select(columns), whole.join(held, on=KEY, how="semi").select(columns)])
    return both.sort("size", maintain_order=True)


def _build_spec(rows: pl.DataFrame, *, several: bool) -> dict[str, Any]:
    records = [
        {
            "task": f"{row['name']}, {row['language']}" if several else row["name"],
            "family": row["family"],
            "size": row["size"],
            "value": row["value"],
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X(
            "size:Q", title="examples", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s")
        ),
        y=alt.Y("value:Q", title="accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=colour_by_kind("family"),
        detail="task:N",
        tooltip=[
            alt.Tooltip("task:N"),
            alt.Tooltip("size:Q", format=",", title="examples"),
            alt.Tooltip("value:Q", format=".1%", title="accuracy"),
        ],
    )
    last = base.transform_joinaggregate(longest="max(size)", groupby=["task"])
    names = last.transform_filter("datum.size == datum.longest").mark_text(style="note", align="left", dx=6)
    return to_vega_lite(
        alt.layer(
            base.mark_line(style="trend"),
            base.mark_point(style="dot", filled=True),
            names.encode(text="task:N"),
        ).properties(height=360)
    )


def _build_table(rows: pl.DataFrame) -> Table:
    place = {task: at for at, task in enumerate(sort_by_family(rows["task"].to_list()))}
    return Table(
        summary="Every size",
        columns=[
            Column(title="Task", value=lambda row: task_label(row["task"])),
            MODEL,
            LANGUAGE,
            Column(title="Examples", value="size", format=COUNT, help="How many the probe was trained on."),
            *score_columns("Accuracy, %", 1, 100),
        ],
        rows=sorted(rows.to_dicts(), key=lambda row: (place[row["task"]], row["shown"], row["size"])),
    )


plot = SectionPlot(
    title="Sizes: how many examples it takes",
    lens=LENS,
    order=230,
    caption=(
        "Test accuracy of the layer chosen on validation, by the size of the data set, of which 60 % train "
        "and 20 % choose. Smaller sets are drawn several times and averaged; all sizes are tested on the "
        "same examples."
    ),
    select=_read_rows,
    figure=_draw,
)
