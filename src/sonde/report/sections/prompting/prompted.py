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
from sonde.results.text_format import verdict_mark, with_interval

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


_K = 20


_ALL_TEMPLATES = "all"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw the share of right answers by rank and the table of all metrics; None without answers."""
    strict = rows.filter(pl.col("matching") == next(iter(_READ)))
    hits = strict.filter(pl.col("metric") == "p_at_k")
    hits_at_k = hits.filter(pl.col("k") == _K)
    if hits_at_k.is_empty():
        return None
    curves = hits.filter(pl.col("template") != _ALL_TEMPLATES).with_columns(who=pl.col("template"))
    refusals = strict.filter((pl.col("metric") == "share_refused") & (pl.col("template") == _ALL_TEMPLATES))
    spec = plot_curves(curves, curves["who"].unique(maintain_order=True).to_list())
    return Figure(
        lead=_format_lead(hits_at_k),
        answer="\n".join(_format_answer(row, rows) for row in refusals.iter_rows(named=True)),
        charts=[Chart(name="prompted", title="Right among the first k listed", spec=spec)],
        table=Table(
            summary="Every statement, with refusals and short lists",
            columns=[
                Column(title="Of", value="subject"),
                Column(
                    title="Statements",
                    value=lambda row: (
                        "calls and imports" if row["template"] == _ALL_TEMPLATES else row["template"]
                    ),
                ),
                Column(title="Read", value=lambda row: _READ[row["matching"]]),
                Column(title="What", value=_format_metric),
                *score_columns(
                    "Value",
                    digits=lambda row: 1 if _is_share(row) else 2,
                    scale=lambda row: 100 if _is_share(row) else 1,
                    n="Queries",
                    clusters="Libraries",
                ),
            ],
            rows=rows,
        ),
        notes=("A list is no ranking of all names: do not compare it with any other P@k of this report.",),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    row_filter = has_dimensions({}) | has_dimension_names(TEMPLATE)
    rows = run.scores(metrics=list(_METRICS), lens="prompting", where=row_filter)
    rows = rows.with_columns(
        template=dimension_value(TEMPLATE).replace(dict(TEMPLATES)).fill_null(_ALL_TEMPLATES)
    )
    positions = {_ALL_TEMPLATES: 0} | {name: position for position, name in enumerate(TEMPLATES.values(), 1)}
    order = pl.col("template").replace_strict(positions, default=len(positions))
    return sort_by_k(run, rows).sort("place", "subject", order, "metric", "k")


def _format_lead(hits: pl.DataFrame) -> str:
    """Write a sentence per model on how often it lists the right answer."""
    return " ".join(
        f"{row['subject']}, asked in words, lists the right answer in {with_interval(row, 100, 1)} % of "
        f"cases{verdict_mark(row)}."
        for row in hits.filter(pl.col("template") == _ALL_TEMPLATES).iter_rows(named=True)
    )


def _format_answer(refusal: Mapping[str, Any], rows: pl.DataFrame) -> str:
    is_subject = (pl.col("shown") == refusal["shown"]) & (pl.col("language") == refusal["language"])
    subject_rows = rows.filter(is_subject & (pl.col("template") == _ALL_TEMPLATES))
    hits = subject_rows.filter((pl.col("metric") == "p_at_k") & (pl.col("k") == _K))
    strict, *lenient = hits.sort(
        pl.col("matching").replace_strict({name: position for position, name in enumerate(_READ)})
    ).iter_rows(named=True)
    lenient_text = (
        f" ({with_interval(lenient[0], 100, 1)} % where lists are read leniently)" if lenient else ""
    )
    unread = subject_rows.filter(pl.col("metric") == "share_unread").to_dicts()
    unread_text = (
        f"; of {with_interval(unread[0], 100, 1)} % of the replies nothing can be read" if unread else ""
    )
    queries = plural(refusal["n"], "cloze query", "cloze queries")
    return (
        f"{refusal['shown']} lists the answer in {with_interval(strict, 100, 1)} % of "
        f"{queries} in {format_language(refusal['language'])}{lenient_text}; "
        f"it refuses {with_interval(refusal, 100, 1)} %{unread_text}"
        f"{verdict_mark(strict) or verdict_mark(refusal)}."
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
        "Share of cloze queries whose left-out subtoken is among the first k of the 20 answers that the "
        "model lists when prompted in words. Refusals count as wrong. Lists are read as published (only "
        "lines with an index) and leniently (also bullets, tables, quoted and called names). Intervals are "
        "95 %, clustered by library."
    ),
    select=_read_rows,
    figure=_draw,
)
