"""Growth of accuracy with the data set: at 100, 1,000 and 10,000 examples and at all there are."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_kind, list_tooltips, plot_lines
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import KEY, LENS, read_headline, read_with_controls
from sonde.report.text import family_order, task_label
from sonde.results.schema import has_dimension_names
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the scores of the sampled sizes, and the headline score as that of all examples."""
    samples = read_with_controls(run, ["accuracy"], has_dimension_names("size"), split="test").with_columns(
        size="k"
    )
    sizes = read_with_controls(run, ["coverage"]).select(
        *KEY, (pl.col("n") * pl.col("value")).round().cast(pl.Int64).alias("size")
    )
    full_rows = read_headline(run).join(sizes, on=KEY)
    keys = samples.select(*KEY).unique()
    columns = [name for name in samples.columns if name in full_rows.columns]
    rows = pl.concat([samples.select(columns), full_rows.join(keys, on=KEY, how="semi").select(columns)])
    return rows.sort("size", maintain_order=True)


def _build_spec(rows: pl.DataFrame, *, show_language: bool) -> dict[str, Any]:
    task = pl.format("{}, {}", "name", "language") if show_language else pl.col("name")
    base = alt.Chart(alt.Data(values=rows.select("family", "size", "value", task=task).to_dicts())).encode(
        x=alt.X(
            "size:Q", title="examples", scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s")
        ),
        color=colour_by_kind("family"),
        detail="task:N",
        tooltip=list_tooltips({"task:N": "", "size:Q": "examples|,", "value:Q": "accuracy|.1%"}),
    )
    y = alt.Y("value:Q", title="accuracy", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    last = base.transform_joinaggregate(longest="max(size)", groupby=["task"])
    names = last.transform_filter("datum.size == datum.longest").mark_text(style="note", align="left", dx=6)
    return plot_lines(base, y, height=360, layers_above=[names.encode(y=y, text="task:N")])


plot = SectionPlot(
    title="Sizes: how many examples it takes",
    lens=LENS,
    order=230,
    caption=(
        "Test accuracy of the layer chosen on validation, by the size of the data set (60 % for training, "
        "20 % for validation). Smaller sets are drawn several times and averaged. All sizes are tested on "
        "the same examples."
    ),
    select=_read_rows,
    figure=lambda run, rows: Figure(
        charts=[
            Chart(
                name=f"probe-sizes-{model.slug}" if run.several else "probe-sizes",
                title=f"Accuracy by size{f', {model.label}' if run.several else ''}",
                spec=_build_spec(part, show_language=len(run.languages) > 1),
                wide=True,
            )
            for model in run.models
            if not (part := rows.filter(pl.col("model") == model.name)).is_empty()
        ],
        table=Table(
            summary="Every size",
            columns=[
                Column(title="Task", value=lambda row: task_label(row["task"])),
                MODEL,
                LANGUAGE,
                Column(
                    title="Examples", value="size", format=COUNT, help="How many the probe was trained on."
                ),
                *score_columns("Accuracy, %", 1, 100, n="Tested examples"),
            ],
            rows=rows.sort(family_order(rows), "shown", "size", maintain_order=True),
        ),
    ),
)
