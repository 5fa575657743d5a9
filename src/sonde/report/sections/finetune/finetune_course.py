"""Course of each training: loss and validation by epoch, and what was chosen of what was tried."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.report.charts import (
    colour_by_meaning,
    dash_by_field,
    list_tooltips,
    split_by_subject,
    to_vega_lite,
)
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.finetune import LENS, METHODS, add_display_names, to_stem
from sonde.results.schema import dimension_value
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT, General

_HEIGHT = 170


_SETTING = ("learning_rate", "batch", "epochs", "best_epoch")


_ENDS = {
    "best_at_end": "Best at the last epoch, so that more epochs may give more",
    "rate_at_edge": "Best at the smallest, the largest or the only rate, so that another may be better",
}
"""What says that a training may want more, by its metric."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw two charts a task where there are several epochs; the table always."""
    epochs = rows.filter(pl.col("epoch").is_not_null())
    has_several_epochs = epochs["epoch"].n_unique() > 1
    return Figure(
        charts=[
            Chart(
                name=f"finetune-course-{to_stem(subject)}-{metric}",
                title=f"{subject.capitalize()}: {title}",
                spec=_build_spec(part.filter(pl.col("metric") == metric), title, form),
            )
            for subject, _, part in (split_by_subject(epochs) if has_several_epochs else ())
            for metric, title, form in (
                ("valid", "right on validation", "%"),
                ("loss", "mean training loss", ".3~f"),
            )
        ],
        table=_build_table(rows),
        notes=_list_notes(rows),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    rows = run.scores(metrics=["valid", "loss", *_SETTING, *_ENDS], lens=LENS, controls=True)
    return add_display_names(rows.filter(pl.col("split") == "valid"), run).with_columns(
        epoch=dimension_value("epoch").cast(pl.Int64), setting=dimension_value("setting")
    )


def _build_spec(rows: pl.DataFrame, title: str, form: str) -> dict[str, Any]:
    sweep_rows = rows.rename({"swept": "who"})
    records = sweep_rows.select("who", "method", "seed", "epoch", "value").to_dicts()
    has_several_sweeps = sweep_rows["who"].n_unique() > 1
    scale = alt.Scale(domain=[0, 1]) if form == "%" else alt.Scale(zero=False)
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("epoch:O", title="epoch", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=title, axis=alt.Axis(format=form), scale=scale),
        color=colour_by_meaning("method", METHODS, set(rows["method"])),
        detail=alt.Detail(["who:N", "seed:N"]),
        tooltip=list_tooltips(
            ({"who:N": " "} if has_several_sweeps else {})
            | {"method:N": "", "seed:N": "", "epoch:O": ""}
            | {"value:Q": f"{title}|{'.1%' if form == '%' else '.3f'}"}
        ),
    )
    line = base.mark_line(clip=True)
    if has_several_sweeps:
        # The lines' alone: points would leave the legend without a stroke.
        line = line.encode(strokeDash=dash_by_field("who"))
    points = base.mark_point(filled=True, size=30, opacity=1, clip=True)
    return to_vega_lite(alt.layer(line, points).properties(height=_HEIGHT))


def _build_table(rows: pl.DataFrame) -> Table:
    """Build a row a training: its best settings, its validation score, and what else was tried."""
    key = ("subject", "swept", "method", "seed")
    records: list[dict[str, Any]] = []
    for part in rows.partition_by(*key, maintain_order=True):
        settings = dict(part.filter(pl.col("metric").is_in(_SETTING)).select("metric", "value").iter_rows())
        validation_scores = part.filter((pl.col("metric") == "valid") & pl.col("epoch").is_not_null())[
            "value"
        ]
        trials = [
            f"{row['setting']}: {number(100 * row['value'], 1)}"
            for row in part.filter(pl.col("setting").is_not_null()).iter_rows(named=True)
        ]
        records.append(
            {
                **part.select(*key).row(0, named=True),
                **settings,
                "tried": "; ".join(trials) or None,
                "best": max(validation_scores.to_list(), default=None),
            }
        )
    return Table(
        summary="Every training, with what was chosen on validation",
        columns=[
            Column(title="Task", value="subject"),
            Column(title="Values", value=lambda row: row["swept"] or None, help="Values of the sweep."),
            Column(title="Method", value="method", help="The trained model and its initial weights."),
            Column(title="Tried (validation, %)", value="tried", help="Settings and what each reached."),
            Column(title="Seed", value=lambda row: int(row["seed"]), format=COUNT),
            Column(title="Learning rate", value="learning_rate", format=General()),
            *(
                Column(title=title, value=name, format=COUNT)
                for title, name in zip(
                    ("Examples an update", "Most epochs", "Best epoch"), _SETTING[1:], strict=True
                )
            ),
            Column(title="Validation, %", value="best", format=PERCENT, help="Reached at the best epoch."),
        ],
        rows=records,
    )


def _list_notes(rows: pl.DataFrame) -> list[str]:
    """List the methods that may want more epochs or another rate; if none does, say so."""
    notes: list[str] = []
    for metric, message in _ENDS.items():
        metric_rows = rows.filter(pl.col("metric") == metric)
        parts = metric_rows.partition_by(
            "subject", "swept", "method", as_dict=True, maintain_order=True
        ).items()
        trainings = [
            f"{subject}{f', {swept}' if swept else ''} ({method}, "
            f"{int(training_rows['value'].sum())} of {len(training_rows)})"
            for (subject, swept, method), training_rows in parts
            if training_rows["value"].sum()
        ]
        notes += [f"{message}: {'; '.join(trainings)}."] if trainings else []
    has_end_metrics = rows["metric"].is_in(list(_ENDS)).any()
    enough = "Trained enough: no training was best at its last epoch or at the edge of its rates."
    return notes or [enough] * has_end_metrics


plot = SectionPlot(
    title="Fine-tuning: how training went",
    lens=LENS,
    order=410,
    caption=(
        "Mean loss of the training examples and accuracy on the validation examples after each epoch, for "
        "the setting that was best on validation. The weights of its best epoch are kept. A pre-trained "
        "model starts from its checkpoint, the others from random weights."
    ),
    select=_read_rows,
    figure=_draw,
)
