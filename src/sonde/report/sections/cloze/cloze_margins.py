"""Pairs of names of which one is better: replacement or deprecated, real or made up."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.base.formatting import plural
from sonde.languages import format_language
from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import LENS
from sonde.results.schema import dimension_value
from sonde.results.tables import MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import verdict_mark, with_interval

_PAIRS: Mapping[str, tuple[str, str]] = {
    "replacement": ("replacement against deprecated", "the replacement to the deprecated name"),
    "fake_package": ("package against a made-up one", "the package to a made-up one"),
    "fake_name": ("name against a made-up one", "the name to a made-up one"),
}


_ANSWERERS: Mapping[str, str] = {
    "": "model",
    "length": "shorter statement",
    "spelling": "spelling alone",
    "chance": "chance",
    "random_weights": "random weights",
}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw the kinds of pairs that the run has."""
    model_rows = rows.filter((pl.col("who") == "") & (pl.col("form") == "all"))
    if model_rows.is_empty():
        return None
    chart_rows = model_rows.with_columns(
        name=pl.col("pair").replace_strict({pair: name for pair, (name, _) in _PAIRS.items()})
    )
    order = [name for name, _ in _PAIRS.values()]
    spec = plot_dots(chart_rows, order, "preferred, %", "statements", reference=(50.0, "guessing"), scale=100)
    return Figure(
        answer="\n".join(
            f"{row['shown']} prefers {_PAIRS[row['pair']][1]} in {with_interval(row, 100, 1)} % of "
            f"{plural(row['n'], 'statement')} in {format_language(row['language'])}{verdict_mark(row)}."
            for row in model_rows.iter_rows(named=True)
        ),
        charts=[Chart(name="cloze-margins", title="Better statement preferred", spec=spec)],
        table=Table(
            summary="Every kind of pair, form of statement and control",
            columns=[
                MODEL,
                Column(title="Pair", value=lambda row: _PAIRS[row["pair"]][0]),
                Column(title="Form", value="form", help="Which statements the pairs are made of."),
                Column(title="Who", value=lambda row: _ANSWERERS[row["who"]], help="The model or a control."),
                *estimate_columns(
                    "Preferred, %", 1, 100, interval="Interval", help="Pairs whose better is likelier."
                ),
                *size_columns("Statements", "Libraries"),
            ],
            rows=rows,
        ),
        notes=["Masked models: pseudo-log-likelihoods, not comparable with those of a decoder."]
        * ("pll" in model_rows["objective"]),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    rows = run.scores(metrics=["preferred"], lens=LENS, controls=True)
    return (
        rows.filter(pl.col("aggregation").fill_null("sum") == "sum")
        .with_columns(
            pair=dimension_value("pair"),
            form=dimension_value("form").fill_null("all"),
            who=pl.col("control").fill_null(""),
        )
        .filter(pl.col("pair").is_in(list(_PAIRS)) & pl.col("who").is_in(list(_ANSWERERS)))
        .sort("shown", "language", "pair", "form", "who")
    )


plot = SectionPlot(
    title="Names of APIs: deprecated and made up",
    lens=LENS,
    order=430,
    caption=(
        "How often the whole statement with the better name is likelier, in per cent, with 95 % intervals "
        "clustered by library; guessing gives half. Log-probabilities are summed over the statement, which "
        "favours short ones, so the share of pairs whose better statement is the shorter is shown too."
    ),
    select=_read_rows,
    figure=_draw,
)
