"""Answers that models list when they are asked in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import plural
from sonde.languages import format_language
from sonde.report.charts import TEMPLATE, TEMPLATES, plot_curves, sort_by_k
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import Column, Table, score_columns
from sonde.results.text_format import caveat, with_interval

_METRICS: Mapping[str, str] = {
    "p_at_k": "right among the first",
    "mrr": "MRR",
    "share_refused": "refused",
    "share_unread": "nothing read of the reply",
    "share_cut": "cut off where its tokens ran out",
    "share_short": "fewer than asked for",
    "share_too_long": "prompt too long",
    "listed": "answers listed",
}


_READ: Mapping[str, str] = {"generative": "as published", "generative_lenient": "leniently"}


_ORDER = {name: place for place, name in enumerate(_READ)}


_K = 20


_EVERY = "all"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """The statements that were asked about."""
    strict = rows.filter(pl.col("matching") == next(iter(_READ)))
    hits = strict.filter(pl.col("metric") == "p_at_k")
    listed = hits.filter(pl.col("k") == _K)
    if listed.is_empty():
        return None
    shown = hits.filter(pl.col("template") != _EVERY).with_columns(who=pl.col("template"))
    refused = strict.filter((pl.col("metric") == "share_refused") & (pl.col("template") == _EVERY))
    spec = plot_curves(shown, shown["who"].unique(maintain_order=True).to_list())
    return Figure(
        lead=_format_lead(listed),
        answer="\n".join(_format_answer(row, rows) for row in refused.iter_rows(named=True)),
        charts=[Chart(name="prompted", title="Right among the first k listed", spec=spec)],
        table=Table(
            summary="Every statement, with refusals and short lists",
            columns=[
                Column(title="Of", value="subject"),
                Column(
                    title="Statements",
                    value=lambda row: "calls and imports" if row["template"] == _EVERY else row["template"],
                ),
                Column(title="Read", value=lambda row: _READ[row["matching"]]),
                Column(title="What", value=_format_metric),
                *score_columns(
                    "Value",
                    digits=lambda row: 1 if _is_share(row) else 2,
                    scale=lambda row: 100 if _is_share(row) else 1,
                    clusters="Libraries",
                ),
            ],
            rows=rows,
        ),
        notes=("A list is no ranking of all names: set it beside no other P@k of this page.",),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    whole = has_dimensions({}) | has_dimension_names(TEMPLATE)
    rows = run.scores(metrics=list(_METRICS), lens="prompting", where=whole)
    rows = rows.with_columns(template=dimension_value(TEMPLATE).replace(dict(TEMPLATES)).fill_null(_EVERY))
    places = {_EVERY: 0} | {name: place for place, name in enumerate(TEMPLATES.values(), 1)}
    order = pl.col("template").replace_strict(places, default=len(places))
    return sort_by_k(run, rows).sort("place", "subject", order, "metric", "k")


def _format_lead(listed: pl.DataFrame) -> str:
    """How often the right answer is listed, a sentence a model."""
    return " ".join(
        f"{row['subject']}, asked in words, lists the right answer in {with_interval(row, 100, 1)} % of "
        f"cases{caveat(row)}."
        for row in listed.filter(pl.col("template") == _EVERY).iter_rows(named=True)
    )


def _format_answer(refused: Mapping[str, Any], rows: pl.DataFrame) -> str:
    same = (pl.col("shown") == refused["shown"]) & (pl.col("language") == refused["language"])
    whole = rows.filter(same & (pl.col("template") == _EVERY))
    listed = whole.filter((pl.col("metric") == "p_at_k") & (pl.col("k") == _K))
    strict, *lenient = listed.sort(pl.col("matching").replace_strict(_ORDER)).iter_rows(named=True)
    besides = f" ({with_interval(lenient[0], 100, 1)} % where lists are read leniently)" if lenient else ""
    unread = whole.filter(pl.col("metric") == "share_unread").to_dicts()
    nothing = (
        f"; of {with_interval(unread[0], 100, 1)} % of the replies nothing can be read" if unread else ""
    )
    queries = plural(refused["n"], "cloze query", "cloze queries")
    return (
        f"{refused['shown']} lists the answer in {with_interval(strict, 100, 1)} % of "
        f"{queries} in {format_language(refused['language'])}{besides}; "
        f"it refuses {with_interval(refused, 100, 1)} %{nothing}{caveat(strict) or caveat(refused)}."
    )


def _format_metric(row: Mapping[str, Any]) -> str:
    name = _METRICS[row["metric"]]
    if row["metric"] == "p_at_k":
        return f"{name} {row['k']}, %"
    return f"{name}, %" if row["metric"].startswith("share") else name


def _is_share(row: Mapping[str, Any]) -> bool:
    return row["metric"].startswith(("p_at", "share"))


plot = SectionPlot(
    title="Names of APIs: listed in words",
    lens="prompting",
    order=440,
    caption=(
        "The share of cloze queries whose left-out subtoken is among the first k of the 20 answers that the "
        "model lists when it is asked in words. Refusals count as wrong. Lists are read as published (lines "
        "with an index alone) and leniently (bullets, tables, quoted and called names as well). Intervals "
        "are 95 %, clustered by library."
    ),
    select=_read_rows,
    figure=_draw,
)
