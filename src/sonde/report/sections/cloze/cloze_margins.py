"""Pairs of names of which one is better: replacement or deprecated, real or made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import plural
from sonde.languages import format_language
from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.cloze import LENS
from sonde.results.schema import dimension_value
from sonde.results.tables import MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import caveat, with_interval

_PAIRS: Mapping[str, tuple[str, str]] = {
    "replacement": ("replacement against deprecated", "the replacement to the deprecated name"),
    "fake_package": ("package against a made-up one", "the package to a made-up one"),
    "fake_name": ("name against a made-up one", "the name to a made-up one"),
}


_WHO: Mapping[str, str] = {
    "": "model",
    "length": "shorter statement",
    "spelling": "spelling alone",
    "chance": "chance",
    "random_weights": "random weights",
}


class ClozeMargins:
    """A dot a kind of pair, and a table with the forms of statements and the controls."""

    title = "Names of APIs: deprecated and made up"
    lens = LENS
    order = 430
    caption = (
        "How often the whole statement with the better name is the likelier one, in %, with 95 % intervals "
        "clustered by library; half is what guessing gives. Log-probabilities are summed over the statement, "
        "which favours short ones: the share of pairs whose better statement is the shorter stands beside it."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The kinds of pairs that the run has."""
        rows = _read_rows(run)
        own = rows.filter((pl.col("who") == "") & (pl.col("form") == "all"))
        if own.is_empty():
            return None
        chart = own.with_columns(
            name=pl.col("pair").replace_strict({pair: names[0] for pair, names in _PAIRS.items()})
        )
        order = [names[0] for names in _PAIRS.values()]
        masked = (own["objective"] == "pll").any()
        return Figure(
            answer="\n".join(_format_answer(row) for row in own.iter_rows(named=True)),
            charts=[
                Chart(
                    name="cloze-margins",
                    title="Better statement preferred",
                    spec=plot_dots(
                        chart, order, "preferred, %", reference=50.0, stands_for="guessing", scale=100
                    ),
                )
            ],
            table=Table(
                summary="Every kind of pair, form of statement and control",
                columns=[
                    MODEL,
                    Column(title="Pair", value=lambda row: _PAIRS[row["pair"]][0]),
                    Column(title="Form", value="form", help="Which statements the pairs are made of."),
                    Column(title="Who", value=lambda row: _WHO[row["who"]], help="The model or a control."),
                    *estimate_columns(
                        "Preferred, %", 1, 100, interval="Interval", help="Pairs whose better is likelier."
                    ),
                    *size_columns(clusters="Libraries"),
                ],
                rows=rows,
            ),
            notes=("Masked models: pseudo-log-likelihoods, not to be set beside a decoder's.",)
            if masked
            else (),
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
        .filter(pl.col("pair").is_in(list(_PAIRS)) & pl.col("who").is_in(list(_WHO)))
        .sort("shown", "language", "pair", "form", "who")
    )


def _format_answer(row: Mapping[str, Any]) -> str:
    return (
        f"{row['shown']} prefers {_PAIRS[row['pair']][1]} in {with_interval(row, 100, 1)} % of "
        f"{plural(row['n'], 'statement')} in {format_language(row['language'])}{caveat(row)}."
    )


plot = ClozeMargins()
