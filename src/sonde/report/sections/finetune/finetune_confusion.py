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
    """Draw a matrix for each model, task, language and test set."""
    parts = {
        ", ".join(filter(None, map(str, key))): (part, _order_classes(part))
        for key, part in rows.partition_by("subject", "swept", as_dict=True, maintain_order=True).items()
    }
    return Figure(
        charts=[
            Chart(
                name=f"finetune-confusion-{to_stem(title)}",
                title=title.capitalize(),
                spec=plot_confusions(part, order, angle=-45),
                wide=len(order) > 8,
            )
            for title, (part, order) in parts.items()
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
                _build_row(part, gold, title)
                for title, (part, order) in parts.items()
                for gold in order
                if gold in part["gold"]
            ],
        ),
    )


def _order_classes(rows: pl.DataFrame) -> list[str]:
    """Order classes by their number of test examples, then those that are only predicted."""
    sizes = rows.group_by("gold").agg(pl.col("n").max()).sort(["n", "gold"], descending=[True, False])
    classes = sizes["gold"].to_list()
    return [*classes, *sorted(set(rows["said"].to_list()) - set(classes))]


def _build_row(rows: pl.DataFrame, gold: str, title: str) -> dict[str, Any]:
    class_rows = rows.filter(pl.col("gold") == gold)
    right = class_rows.filter(pl.col("said") == gold)["value"].sum()
    return {
        **class_rows.row(0, named=True),
        "about": title,
        "right": right,
        "wrong": list_mistakes(class_rows),
    }


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
