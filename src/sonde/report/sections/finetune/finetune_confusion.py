"""Confusions of a fine-tuned model: which classes it takes for which, types of exceptions above all."""

from __future__ import annotations

import polars as pl

from sonde.report.charts import build_confusions
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.finetune import LENS, add_display_names, to_stem
from sonde.results.schema import dimension_value
from sonde.results.tables import Column


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a matrix for each model, task, language and test set, classes with most examples first."""
    size = pl.col("n").max().over("subject", "swept", "gold")
    parts = rows.with_columns(size=size).partition_by("subject", "swept", as_dict=True, maintain_order=True)
    titles = {", ".join(filter(None, map(str, key))): part for key, part in parts.items()}
    return build_confusions(
        [
            (
                f"finetune-confusion-{to_stem(title)}",
                f"{title[:1].upper()}{title[1:]}",
                part.sort(-pl.col("size"), "gold", maintain_order=True),
            )
            for title, part in titles.items()
        ],
        [Column(title="Task", value="title")],
        minimum=2,
        angle=-45,
    )


plot = SectionPlot(
    title="Fine-tuning: which classes are taken for which",
    lens=LENS,
    order=420,
    caption=(
        "Each row is a class; its cells show how many per cent of its test examples the fine-tuned model "
        "assigns to each class, over all seeds. Classes with more test examples come first; what is not "
        "drawn was never predicted. Shares of small classes mean little; the table has their numbers."
    ),
    select=lambda run: add_display_names(run.scores(metrics=["confusion"], lens=LENS), run).with_columns(
        gold=dimension_value("gold"), said=dimension_value("predicted")
    ),
    figure=_draw,
)
