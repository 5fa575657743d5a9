"""Distances of dependents from their heads, relation by relation (CodeSyntax, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.languages import format_language
from sonde.report.charts import colour_by_kind, list_tooltips, split_by_subject, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import DISTANCE, LENS, MODEL, RELATION, read_hits
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, Column, Table, score_columns
from sonde.results.text_format import verdict_mark, with_interval


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the mean distances of relations. The code alone sets them, so all models share them."""
    rows = run.scores(metrics=["mean_offset"], lens=LENS)
    rows = rows.with_columns(relation=dimension_value(RELATION), distance=dimension_value(DISTANCE))
    return rows.unique(["language", "side", "relation"], keep="first", maintain_order=True)


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    chart_rows = rows.filter(pl.col("side") == rows["side"][0]).select(
        "relation", "language", "n", offset="value"
    )
    base = alt.Chart(alt.Data(values=chart_rows.to_dicts())).encode(
        x=alt.X("offset:Q", title="mean distance in words", bin=alt.Bin(maxbins=40)),
        y=alt.Y("count():Q", title="relations"),
        tooltip=[
            alt.Tooltip("offset:Q", bin=alt.Bin(maxbins=40), title="distance"),
            *list_tooltips({"count():Q": "relations"}),
        ],
    )
    if rows["language"].n_unique() > 1:
        base = base.encode(color=colour_by_kind("language"))
    return to_vega_lite(base.mark_bar(style="neutral", binSpacing=1).properties(height=220))


def _count_relations(rows: pl.DataFrame) -> Iterator[str]:
    for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
        names = part.unique("relation", keep="first")
        near_count = names.filter(pl.col("distance") == "near").height
        near_text, far_text = (
            plural(near_count, "near relation"),
            plural(names.height - near_count, "far one"),
        )
        yield f"{format_language(str(language))}: {near_text}, {far_text}."


def _list_hits(run: RunData) -> Iterator[str]:
    hits = read_hits(run, by=DISTANCE).filter((pl.col("k") == 1) & (pl.col("metric") == "first_hit"))
    for subject, _, part in split_by_subject(hits):
        rows = {(row["label"], row["predictor"]): row for row in part.iter_rows(named=True)}
        for distance in ("near", "far"):
            best, offset = rows.get((distance, MODEL)), rows.get((distance, "offset"))
            if best and offset:
                yield (
                    f"{subject}, {distance}: best heads {with_interval(best, 100, 1)} %, offset "
                    f"{with_interval(offset, 100, 1)} % of first words found at once{verdict_mark(best)}."
                )


plot = SectionPlot(
    title="Attention: near and far relations",
    lens=LENS,
    order=340,
    caption=(
        "Mean distance, in words, from the word asked about to the first word looked for. Relations below "
        "ten are near, the others far (CodeSyntax, section 2). The table has each mean with its interval, "
        "over all edges of the run."
    ),
    select=_read_rows,
    figure=lambda run, rows: Figure(
        answer="\n".join([*_count_relations(rows), *_list_hits(run)]),
        charts=[
            Chart(
                name="attention-offsets",
                title="Relations by mean distance",
                spec=_build_spec(rows),
                wide=True,
            )
        ],
        table=Table(
            summary="Every relation's mean distance",
            columns=[
                Column(
                    title="Relation", value="relation", help="The relation between two words in the syntax."
                ),
                LANGUAGE,
                Column(title="Side", value="side"),
                Column(title="Distance", value="distance", help="Unit of the distance between the words."),
                *score_columns("Mean", 1, n="Edges"),
            ],
            rows=rows.sort("language", "value", "relation"),
        ),
    ),
)
