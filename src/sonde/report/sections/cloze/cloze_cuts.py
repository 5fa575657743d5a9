"""Shares of known names by masking mode, place in the name, calls in the corpus, and library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.report.charts import TEMPLATE, TEMPLATES, plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import LENS, OF_STATEMENTS, select_headline_rows
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns

_K = 10


_ENDS = 10


_CUTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mode": ("Masked subtoken", ("full", "first", "middle", "last", "whole")),
    "place": ("Place in the name", ("top", "inner", "member")),
    "calls": ("Calls in the corpus", ("1", "2-4", "5-19", "20+")),
    "visible": ("Answer occurs elsewhere in the statement", ("yes", "no")),
    "agree": ("All models cut the level alike", ("yes", "no")),
}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw a chart for each cut that the run has."""
    calls = rows.filter(pl.col("template") == "call")
    if calls.is_empty():
        return None
    charts = [
        Chart(
            name=f"cloze-by-{dimension}",
            title=title,
            spec=plot_dots(part, list(order), "P@10, %", "queries", scale=100),
        )
        for dimension, (title, order) in _CUTS.items()
        if (part := calls.filter(pl.col("cut") == dimension))["name"].n_unique() > 1
    ]
    libraries = calls.filter(pl.col("cut") == "library")
    if libraries.height > 1:
        # The best and the least known, by the mean over models.
        by_name = libraries.group_by("name").agg(mean=pl.col("value").mean(), most=pl.col("value").max())
        ranking = by_name.sort("mean", "name", descending=[True, False])
        ends = pl.concat([ranking.head(_ENDS), ranking.tail(_ENDS)]).unique("name")
        order = ends.sort("most", "name", descending=[True, False])["name"].to_list()
        chart_rows = libraries.filter(pl.col("name").is_in(order))
        charts.append(
            Chart(
                name="cloze-by-library",
                title=f"Libraries: the {_ENDS} highest and {_ENDS} lowest shares",
                spec=plot_dots(chart_rows, order, "P@10, %", "queries", scale=100),
                wide=True,
            )
        )
    return Figure(
        charts=charts,
        table=Table(
            summary="Every group",
            columns=[
                Column(title="Statement", value=lambda row: TEMPLATES[row["template"]]),
                Column(
                    title="Cut",
                    value=lambda row: _CUTS[row["cut"]][0] if row["cut"] in _CUTS else "Library",
                    help="By what the queries are grouped.",
                ),
                Column(title="Group", value="name"),
                MODEL,
                *score_columns(
                    "P@10, %", 1, 100, n="Queries", help="The name asked for is among the first 10 answers."
                ),
            ],
            rows=sorted(rows.iter_rows(named=True), key=_get_sort_key),
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    rows = select_headline_rows(run.scores(metrics=["p_at_k"], where=OF_STATEMENTS, lens=LENS))
    dimensions = (*_CUTS, "library")
    rows = rows.filter(pl.col("k") == _K).with_columns(
        template=dimension_value(TEMPLATE),
        cut=pl.coalesce(
            pl.when(has_dimension_names(TEMPLATE, dimension)).then(pl.lit(dimension))
            for dimension in dimensions
        ),
        name=pl.coalesce(dimension_value(dimension) for dimension in dimensions).replace(
            {"true": "yes", "false": "no"}
        ),
    )
    return rows.filter(pl.col("template").is_in(list(TEMPLATES)) & pl.col("cut").is_not_null()).with_columns(
        shown=run.subject
    )


def _get_sort_key(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the sort key: statement, cut and group as the page names them; libraries last, best first."""
    templates, cuts = list(TEMPLATES), list(_CUTS)
    if row["cut"] not in _CUTS:
        return templates.index(row["template"]), len(cuts), -row["value"], row["name"], row["shown"]
    groups = _CUTS[row["cut"]][1]
    position = groups.index(row["name"]) if row["name"] in groups else len(groups)
    return templates.index(row["template"]), cuts.index(row["cut"]), position, row["name"], row["shown"]


plot = SectionPlot(
    title="Names of APIs: which are known",
    lens=LENS,
    order=410,
    caption=(
        "Share of call queries whose left-out subtoken is among the first ten answers, by the part asked "
        "for and by library: the ten best known and the ten least known. Intervals are 95 %, clustered by "
        "library, those of a single library by name. The table has the other statements."
    ),
    select=_read_rows,
    figure=_draw,
)
