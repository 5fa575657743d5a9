"""Which classes a fine-tuned model takes for which: types of exceptions, above all."""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.report.charts import plot_confusions
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.finetune import LENS, add_display_names, to_stem
from sonde.report.text import list_mistakes
from sonde.results.schema import dimension_value
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One matrix a model, task, language and test set."""
    parts = {
        ", ".join(filter(None, map(str, about))): (part, _order(part))
        for about, part in rows.partition_by("subject", "swept", as_dict=True, maintain_order=True).items()
    }
    return Figure(
        charts=[
            Chart(
                name=f"finetune-confusion-{to_stem(about)}",
                title=about.capitalize(),
                spec=plot_confusions(part, order, angle=-45),
                wide=len(order) > 8,
            )
            for about, (part, order) in parts.items()
        ],
        table=Table(
            summary="Every class, and the wrong classes predicted for it",
            columns=[
                Column(title="Task", value="about"),
                Column(title="Class", value="gold", help="The true class."),
                Column(title="Right, %", value="right", format=PERCENT),
                Column(
                    title="Wrongly predicted as, %",
                    value="wrong",
                    help="Up to three wrong classes in order of their shares of these very examples.",
                ),
                Column(title="Examples", value="n", format=COUNT),
                Column(title="Clusters", value="n_clusters", format=COUNT),
            ],
            rows=[
                _row(part, gold, about)
                for about, (part, order) in parts.items()
                for gold in order
                if gold in part["gold"]
            ],
        ),
    )


def _order(rows: pl.DataFrame) -> list[str]:
    """Classes by their number of test examples, then those that are only said."""
    sizes = rows.group_by("gold").agg(pl.col("n").max()).sort(["n", "gold"], descending=[True, False])
    held = sizes["gold"].to_list()
    return [*held, *sorted(set(rows["said"].to_list()) - set(held))]


def _row(rows: pl.DataFrame, gold: str, about: str) -> dict[str, Any]:
    own = rows.filter(pl.col("gold") == gold)
    right = own.filter(pl.col("said") == gold)["value"].sum()
    return {**own.row(0, named=True), "about": about, "right": right, "wrong": list_mistakes(own)}


plot = SectionPlot(
    title="Fine-tuning: which classes are taken for which",
    lens=LENS,
    order=420,
    caption=(
        "Of the test examples of a class (a row), the share that the fine-tuned model gives to each class (a "
        "column), over all seeds; classes with more test examples stand first, and what is not drawn is "
        "never said. Classes with few examples have shares that mean little: the table has their numbers."
    ),
    select=lambda run: add_display_names(run.scores(metrics=["confusion"], lens=LENS), run).with_columns(
        gold=dimension_value("gold"), said=dimension_value("predicted")
    ),
    figure=_draw,
)
