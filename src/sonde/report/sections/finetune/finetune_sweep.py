"""Changes by more data, longer inputs, more epochs or frozen weights (CuBERT, tables 3 and 4)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number, plural
from sonde.report.charts import colour_by_meaning, dash_by_field, list_tooltips, mark_estimates, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.finetune import (
    LENS,
    METHODS,
    METRICS,
    POINTERS,
    PRETRAINED,
    describe_open_differences,
    match_rows,
    read_test_scores,
    select_chart_rows,
    select_main_differences,
    sort_rows,
    to_chart_records,
    to_stem,
)
from sonde.report.text import Differences
from sonde.results.schema import dimensions_text
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import PERCENT_WITH_INTERVAL, SHARE, Row, with_interval

_IN_TABLE = ("majority", "length", "parse_error", "artefacts")
"""Baselines that are in the table only."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each task and metric; the table has the differences."""
    changes = read_test_scores(run, ["change"]).to_dicts()
    main_changes = select_main_differences(row for row in changes if row["control"] is None)
    is_in_chart = ~pl.col("control").is_in(_IN_TABLE) | pl.col("control").is_null()
    parts = select_chart_rows(rows).filter(is_in_chart).partition_by(
        "subject", "metric", as_dict=True, maintain_order=True
    )  # fmt: skip
    return Figure(
        lead=_format_lead(main_changes),
        answer="\n".join(
            f"{row['subject']}, {METRICS[row['of_metric']]}: {row['swept']} minus "
            f"{_format_values(row)} {with_interval(row, 100, 1)} "
            f"points{SHARE.difference_caveat(row)}."
            for row in main_changes.rows
        ),
        charts=[
            Chart(
                name=f"finetune-sweep-{to_stem(str(subject))}-{metric}",
                title=f"{str(subject).capitalize()}: share {METRICS[str(metric)]}",
                spec=_build_spec(part),
            )
            for (subject, metric), part in parts.items()
        ],
        table=Table(
            summary="Every task, metric, method and value",
            columns=[
                Column(title="Task", value="subject"),
                Column(title="Metric", value=lambda row: METRICS[row["metric"]]),
                Column(title="Method", value="method", help="The trained model and its initial weights."),
                Column(title="Values", value="swept", help="Values of the sweep."),
                Column(title="Share, %", format=PERCENT_WITH_INTERVAL),
                Column(
                    title="Minus the last values, points",
                    value=match_rows(changes),
                    format=PERCENT_WITH_INTERVAL,
                    help="The difference from the last values of the sweep on the same examples.",
                ),
                *size_columns("Examples"),
            ],
            rows=sort_rows(rows),
        ),
        notes=_list_notes(run),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the rows of a sweep with the option that was swept last, its value, and the other values."""
    rows = read_test_scores(run, list(METRICS)).filter(pl.col("swept") != "")
    dimensions = pl.col("dimensions").list
    last, other_dimensions = dimensions.last().struct, dimensions.head(dimensions.len() - 1)
    return rows.with_columns(
        option=last.field("name"), value_of=last.field("value"), others=dimensions_text(other_dimensions)
    )


def _format_values(row: Row) -> str:
    """Format the values that a change is compared with, for example ``epochs 2, fraction 0.33``."""
    return row["compared_to"].replace("=", " ").replace(";", ", ")


def _format_lead(changes: Differences) -> str:
    if not changes.rows:
        return "The values of a sweep were trained; no difference between them is known."
    start = f"Against {_format_values(changes.rows[0])},"
    if changes.is_open:
        differences = describe_open_differences(changes, "swept")
        return f"{start} too little data on the other values {differences} points."
    n_worse, trainings = len(changes.lower), plural(len(changes.rows), "training")
    sentence = (
        f"{start} of {trainings} with other values {n_worse} {'is' if n_worse == 1 else 'are'} worse and "
        f"{len(changes.higher)} better beyond the interval"
    )
    return f"{'; '.join([sentence, *changes.describe_rest()])}."


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    order = rows["value_of"].unique(maintain_order=True).to_list()
    has_other_values = rows["others"].n_unique() > 1
    option = rows["option"][0]
    base = alt.Chart(alt.Data(values=to_chart_records(rows, "value_of", "others"))).encode(
        x=alt.X("value_of:O", title=option, sort=order, axis=alt.Axis(labelAngle=0)),
        color=colour_by_meaning("method", METHODS, set(rows["method"])),
        tooltip=list_tooltips(
            ({"others:N": " "} if has_other_values else {})
            | {"value_of:O": option, "method:N": "", "reading:N": "%", "n:Q": "examples|,"}
        ),
    )
    line = base.mark_line(opacity=0.6)
    if has_other_values:
        line = line.encode(strokeDash=dash_by_field("others"))
    unit, scale, axis = "test examples", alt.Scale(domain=[0, 1]), alt.Axis(format="%")
    interval, *dots = mark_estimates(base, unit, channel="y", scale=scale, axis=axis, style="spread")
    y = alt.Y("value:Q", title=unit, scale=scale, axis=axis)
    return to_vega_lite(alt.layer(interval, line.encode(y=y), *dots))


def _list_notes(run: RunData) -> list[str]:
    """List how many test examples each value of the sweep truncates."""
    truncated_rows = read_test_scores(run, ["truncated"]).filter(
        (pl.col("swept") != "") & (pl.col("method") == PRETRAINED)
    )
    shares: dict[bool, list[str]] = {True: [], False: []}
    for row in truncated_rows.iter_rows(named=True):
        if row["value"] > 0:
            training = f"{row['subject']}, {row['swept']}"
            shares[row["task"] in POINTERS].append(f"{training}: {number(100 * row['value'], 1)} %")
    notes = [f"Test examples longer than the limit: {'; '.join(shares[False])}."] if shares[False] else []
    if shares[True]:
        notes.append(
            "Test examples with their error, or all that would be right, beyond the limit, which count as "
            f"not found: {'; '.join(shares[True])}."
        )
    return notes


plot = SectionPlot(
    title="Fine-tuning: what each option changes",
    lens=LENS,
    order=405,
    caption=(
        "Test accuracy for each value of the options that were swept, with 95 % intervals clustered as the "
        "code is. Each value is trained separately, with hyperparameters chosen on validation for it "
        "alone. A bag of tokens depends only on the training fraction. Differences to the last value are "
        "paired on the same examples. Majority, length, parse errors and artefacts are only in the table."
    ),
    select=_read_rows,
    figure=_draw,
)
