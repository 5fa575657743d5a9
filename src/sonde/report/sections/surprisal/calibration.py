"""Whether the model's confidence can be believed: reliability curve and expected calibration error."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.surprisal._scores import LENS
from sonde.results.schema import has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import Format, Number, caveat, with_interval


class Calibration:
    """Accuracy of the best guess against the probability that the model gave it, in bins."""

    title = "Calibration: can its confidence be believed?"
    lens = LENS
    order = 70
    caption = (
        "Subwords binned by the probability of the model's best guess; on the diagonal, a guess held at 70 % "
        "is right 70 times in a hundred. Below it the model is overconfident. Vertical lines are 95 % "
        "intervals, columns below show how many subwords a bin holds."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Curve and occupancy, from the dimension ``confidence``."""
        rows = run.scores(lens=LENS, metrics=["accuracy", "confidence"], by="confidence")
        bins = _bins(rows, run)
        if bins.is_empty():
            return None
        errors = run.scores(lens=LENS, metrics=["ece"], where=has_dimensions({})).with_columns(
            line=run.subject
        )
        return Figure(
            answer="\n".join(_format_sentence(row, run) for row in errors.iter_rows(named=True)),
            charts=[
                Chart(name="calibration", title="Reliability of the best guess", spec=_curve(bins)),
                Chart(name="calibration-counts", title="How confident it is, how often", spec=_counts(bins)),
            ],
            table=_build_table(bins, run),
            notes=["Calibration is of subwords and of one tokenizer: models are comparable only within one."],
        )


def _bins(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """One row a model, language and bin: accuracy with interval beside mean confidence."""
    keys = ["model", "shown", "language", "label"]
    accuracy = rows.filter(pl.col("metric") == "accuracy")
    confidence = rows.filter(pl.col("metric") == "confidence").select(*keys, confidence="value")
    edges = pl.col("label").str.split("-").list
    return (
        accuracy.join(confidence, on=keys)
        .with_columns(
            low=edges.first().cast(pl.Float64, strict=False),
            high=edges.last().cast(pl.Float64, strict=False),
            line=run.subject,
        )
        .sort("shown", "language", "low")
    )


def _format_sentence(row: dict[str, Any], run: RunData) -> str:
    who = f"{row['line']}: " if run.several or len(run.languages) > 1 else ""
    bins = {"equal_width": ", in bins of equal width", "equal_mass": ", in bins of equal size"}
    return (
        f"{who}The expected calibration error is {with_interval(row, 100, 1)} percentage points "
        f"over {plural(row['n'], 'subword')}{bins.get(row['binning'], '')}{caveat(row)}."
    )


def _base(bins: pl.DataFrame) -> alt.Chart:
    single = bins["line"].n_unique() == 1
    records = [
        {
            "line": row["line"],
            "bin": row["label"],
            "accuracy": row["value"],
            "ci_low": row["ci_low"],
            "ci_high": row["ci_high"],
            "confidence": row["confidence"],
            "low": row["low"],
            "high": row["high"],
            "n": row["n"],
            "reading": with_interval(row),
        }
        for row in bins.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        tooltip=[
            alt.Tooltip("line:N", title=" "),
            alt.Tooltip("confidence:Q", format=".2f"),
            alt.Tooltip("reading:N", title="accuracy"),
            alt.Tooltip("n:Q", format=","),
        ]
    )
    return base if single else base.encode(color=alt.Color("line:N", title=None, sort=None))


def _curve(bins: pl.DataFrame) -> dict[str, Any]:
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("confidence:Q", title="probability of the best guess", scale=unit, axis=alt.Axis(format="%"))
    y = alt.Y("accuracy:Q", title="how often it is right", scale=unit, axis=alt.Axis(format="%"))
    base = _base(bins)
    diagonal = alt.Chart(
        alt.Data(values=[{"confidence": 0, "accuracy": 0}, {"confidence": 1, "accuracy": 1}])
    )
    return to_vega_lite(
        alt.layer(
            diagonal.mark_line(style="reference", strokeWidth=1).encode(x=x, y=y),
            base.mark_line(style="trend", strokeWidth=1.6, clip=True).encode(x=x, y=y),
            base.mark_rule(style="interval", clip=True).encode(x=x, y=alt.Y("ci_low:Q"), y2="ci_high:Q"),
            base.mark_point(style="dot", filled=True, clip=True).encode(x=x, y=y),
        ).properties(height=300)
    )


def _counts(bins: pl.DataFrame) -> dict[str, Any]:
    base = _base(bins)
    x = alt.X(
        "low:Q",
        title="probability of the best guess",
        axis=alt.Axis(format="%"),
        scale=alt.Scale(domain=[0, 1]),
    )
    y = alt.Y("n:Q", title="subwords", stack=None, axis=alt.Axis(format="~s"))
    columns = base.mark_bar(style="columns", binSpacing=1).encode(x=x, x2="high:Q", y=y, y2=alt.datum(0))
    return to_vega_lite(columns.properties(height=300))


def _build_table(bins: pl.DataFrame, run: RunData) -> Table:
    return Table(
        summary="Every bin",
        columns=[
            MODEL,
            LANGUAGE,
            Column(title="Confidence bin", value="label", format=Format(right=True), order="low"),
            Column(
                title="Mean confidence",
                value="confidence",
                format=Number(),
                help="Mean probability that the model gives its first answer.",
            ),
            *score_columns(
                "Accuracy", help="How often that answer is right: as often as its confidence, at best."
            ),
        ],
        rows=bins,
    )


plot = Calibration()
