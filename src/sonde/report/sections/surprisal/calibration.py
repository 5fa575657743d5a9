"""Calibration of the model's confidence: reliability curve and expected calibration error."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import list_tooltips, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import LENS
from sonde.results.schema import has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import PERCENT, Format, verdict_mark, with_interval


def _draw(run: RunData, bins: pl.DataFrame) -> Figure:
    """Draw the reliability curve and the number of subwords per bin of confidence."""
    errors = run.scores(lens=LENS, metrics=["ece"], where=has_dimensions({})).with_columns(line=run.subject)
    binnings = {"equal_width": ", in bins of equal width", "equal_mass": ", in bins of equal size"}
    show_subject = run.several or len(run.languages) > 1
    points = bins.select(
        "line", "confidence", "low", "high", "n", "ci_low", "ci_high", accuracy="value",
        reading=pl.Series(map(with_interval, bins.to_dicts()), dtype=pl.String),
    )  # fmt: skip
    base = alt.Chart(alt.Data(values=points.to_dicts())).encode(
        tooltip=list_tooltips(
            {"line:N": " ", "confidence:Q": "|.2f", "reading:N": "accuracy", "n:Q": "subwords|,"}
        )
    )
    if bins["line"].n_unique() > 1:
        base = base.encode(color=alt.Color("line:N", title=None, sort=None))
    return Figure(
        answer="\n".join(
            f"{row['line'] + ': ' if show_subject else ''}The expected calibration error is "
            f"{with_interval(row, 100, 1)} percentage points over {plural(row['n'], 'subword')}"
            f"{binnings.get(row['binning'], '')}{verdict_mark(row)}."
            for row in errors.iter_rows(named=True)
        ),
        charts=[
            Chart(name="calibration", title="Reliability of the best guess", spec=_plot_curve(base)),
            Chart(name="calibration-counts", title="How confident it is, how often", spec=_plot_counts(base)),
        ],
        table=Table(
            summary="Every bin",
            columns=[
                MODEL,
                LANGUAGE,
                Column(title="Confidence bin", value="label", format=Format(right=True), order="low"),
                Column(
                    title="Mean confidence, %",
                    value="confidence",
                    format=PERCENT,
                    help="Mean probability that the model gives its first answer.",
                ),
                *score_columns(
                    "Accuracy, %",
                    1,
                    100,
                    n="Subwords",
                    help="How often that answer is right: as often as its confidence, at best.",
                ),
            ],
            rows=bins,
        ),
        notes=["Calibration is of subwords and of one tokenizer: models are comparable only within one."],
    )


def _plot_curve(base: alt.Chart) -> dict[str, Any]:
    options: dict[str, Any] = {"scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="%")}
    x = alt.X("confidence:Q", title="probability of the best guess", **options)
    y = alt.Y("accuracy:Q", title="how often it is right", **options)
    diagonal = alt.Chart(alt.Data(values=[{"confidence": value, "accuracy": value} for value in (0, 1)]))
    return to_vega_lite(
        alt.layer(
            diagonal.mark_line(style="reference", strokeWidth=1).encode(x=x, y=y),
            base.mark_line(style="trend", strokeWidth=1.6, clip=True).encode(x=x, y=y),
            base.mark_rule(style="interval", clip=True).encode(x=x, y=alt.Y("ci_low:Q"), y2="ci_high:Q"),
            base.mark_point(style="dot", filled=True, clip=True).encode(x=x, y=y),
        ).properties(height=300)
    )


def _plot_counts(base: alt.Chart) -> dict[str, Any]:
    columns = base.mark_bar(style="columns", binSpacing=1).encode(
        x=alt.X(
            "low:Q",
            title="probability of the best guess",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        x2="high:Q",
        y=alt.Y("n:Q", title="subwords", stack=None, axis=alt.Axis(format="~s")),
        y2=alt.datum(0),
    )
    return to_vega_lite(columns.properties(height=300))


def _read_bins(run: RunData) -> pl.DataFrame:
    """Read one row per model, language and bin: accuracy with its interval, and mean confidence."""
    rows = run.scores(lens=LENS, metrics=["accuracy", "confidence"], by="confidence")
    keys = ["model", "shown", "language", "label"]
    confidence = rows.filter(pl.col("metric") == "confidence").select(*keys, confidence="value")
    edges = pl.col("label").str.split("-").list
    return (
        rows.filter(pl.col("metric") == "accuracy")
        .join(confidence, on=keys)
        .with_columns(
            low=edges.first().cast(pl.Float64, strict=False),
            high=edges.last().cast(pl.Float64, strict=False),
            line=run.subject,
        )
        .sort("shown", "language", "low")
    )


plot = SectionPlot(
    title="Calibration: can its confidence be believed?",
    lens=LENS,
    order=70,
    caption=(
        "Subwords binned by the probability of the model's best guess. On the diagonal, guesses with a "
        "probability of 70 % are right 70 times in a hundred; below it the model is overconfident. "
        "Vertical lines are 95 % intervals. The columns below show how many subwords are in each bin."
    ),
    select=_read_bins,
    figure=_draw,
)
