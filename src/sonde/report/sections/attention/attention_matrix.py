"""All heads by all relations: how often each finds each, and which were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import count, plural
from sonde.report.charts import plot_by_subject, plot_heat_map, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.attention import (
    BY_HEAD,
    HEAD_COLUMNS,
    LENS,
    RELATION_COLUMN,
    add_subject,
    find_best_heads,
    format_head,
)
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT

_MOST_HEADS = 192
"""More heads than this are no picture that anyone reads."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a matrix for each subject."""
    best_heads = find_best_heads(run)
    parts = [(subject, part, best_heads.get(subject, {})) for subject, _, part in split_by_subject(rows)]
    best_by_subject = {subject: best for subject, _, best in parts}
    return Figure(
        answer="\n".join(_format_answer(*part) for part in parts),
        charts=plot_by_subject(
            rows,
            "attention-matrix",
            "Edges found by every head",
            lambda part: _build_spec(_select_heads(part), best_by_subject[part["subject"][0]]),
            wide=True,
        ),
        table=Table(
            summary="Every head and relation",
            columns=[
                RELATION_COLUMN,
                Column(title="Of", value="subject"),
                *HEAD_COLUMNS,
                Column(
                    title="Found, %", format=PERCENT, help="Test edges whose other end it attends to most."
                ),
                Column(title="Edges", value="n", format=COUNT),
            ],
            rows=rows.sort("value", descending=True, maintain_order=True),
        ),
        notes=[
            f"{subject}: {count(_MOST_HEADS)} of {count(heads)} heads are drawn, those that find most of "
            "any relation; the table has all."
            for subject, part, _ in parts
            if (heads := _count_heads(part)) > _MOST_HEADS
        ],
    )


def _format_answer(subject: str, rows: pl.DataFrame, best: Mapping[tuple[int, int], Sequence[str]]) -> str:
    """Describe how the relations are spread over the heads."""
    several_count = sum(len(relations) > 1 for relations in best.values())
    heads, relations = plural(_count_heads(rows), "head"), plural(sum(map(len, best.values())), "relation")
    return (
        f"{subject}: {len(best)} of {heads} {'is' if len(best) == 1 else 'are'} the chosen one of "
        f"{relations}, {count(several_count)} of them of several."
    )


def _count_heads(rows: pl.DataFrame) -> int:
    return rows.select("layer", "head").n_unique()


def _select_heads(rows: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows of the heads that find most of any relation."""
    best = rows.group_by("layer", "head").agg(pl.col("value").max())
    top_heads = best.sort("value", "layer", "head", descending=[True, False, False]).head(_MOST_HEADS)
    return rows.join(
        top_heads.select("layer", "head"), on=["layer", "head"], how="semi", maintain_order="left"
    )


def _build_spec(rows: pl.DataFrame, best: Mapping[tuple[int, int], Sequence[str]]) -> dict[str, Any]:
    first = rows.sort("value", "layer", "head", descending=[True, False, False]).unique("label", keep="first")
    relations = first.sort("layer", "head", "label")["label"].to_list()
    order = [
        f"{layer}.{head}"
        for layer, head in rows.select("layer", "head").unique().sort("layer", "head").rows()
    ]
    records = [
        {
            "relation": row["label"],
            "place": format_head(row),
            "value": row["value"],
            "n": row["n"],
            "mark": "●" if row["label"] in best.get((row["layer"], row["head"]), ()) else "",
        }
        for row in rows.iter_rows(named=True)
    ]
    return plot_heat_map(
        records,
        alt.X("place:N", sort=order, title="head", axis=alt.Axis(labelAngle=-90, labelOverlap=True)),
        alt.Y("relation:N", sort=relations, title=None),
        {"relation:N": " ", "place:N": "layer.head", "value:Q": "edges found|.1%", "n:Q": "edges|,"},
        legend="edges found",
        text="mark",
        size=9,
        step=17,
    )


plot = SectionPlot(
    title="Attention: every head and relation",
    lens=LENS,
    order=325,
    caption=(
        "Share of the test edges of each relation (first word of the dependent) that each head finds at "
        "once. Columns are heads as layer.head, counted from 0. Relations are ordered by the head that "
        "finds most of them, so those of one head are adjacent. A dot marks the head that validation chose "
        "for the relation; its share is the one reported. The strongest cell of a row is the best of many "
        "and overstates."
    ),
    select=lambda run: add_subject(run.scores(metrics=["first_hit"], by=BY_HEAD, lens=LENS), run),
    figure=_draw,
)
