"""A map of heads: which relation each follows best, and how well."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import plot_by_subject, plot_heat_map, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.attention import FOLLOWED, HEAD_COLUMNS, LENS, add_subject, find_best_heads
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT

_LABELLED_HEADS = 6
"""Heads of a layer beyond which names do not fit into the cells."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a map for each subject. Cells have no interval, so the answer names none."""
    best_heads = find_best_heads(run)
    rows = rows.with_columns(
        chosen=pl.struct("subject", "layer", "head").map_elements(
            lambda head: best_heads.get(head["subject"], {}).get((head["layer"], head["head"]), []),
            pl.List(pl.String),
        )
    )
    return Figure(
        answer="\n".join(
            f"{subject}: {plural(part.height, 'head')} follow{'s' * (part.height == 1)} "
            f"{plural(part['label'].n_unique(), 'relation')}, each head the one that it finds most of on "
            "validation."
            for subject, _, part in split_by_subject(rows)
        ),
        charts=plot_by_subject(rows, "attention-heads", "Best relation of each head", _build_spec, wide=True),
        table=Table(
            summary="Every head",
            columns=[
                Column(title="Of", value="subject"),
                *HEAD_COLUMNS,
                Column(
                    title="Best relation",
                    value="label",
                    help="The relation that it finds most of on validation.",
                ),
                Column(title="Found, %", format=PERCENT, help="Edges whose other end it attends to most."),
                Column(title="Edges", value="n", format=COUNT),
                Column(
                    title="Chosen for",
                    value=lambda row: ", ".join(row["chosen"]) or None,
                    help="Relations that it finds most of on validation.",
                ),
            ],
            rows=rows.sort("value", descending=True, maintain_order=True),
        ),
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    head_count = rows["head"].n_unique()
    relation = pl.col("label")
    cells = rows.select(
        "layer",
        "head",
        "value",
        "n",
        relation=relation,
        # A dot says that the head was chosen for the relation that it follows best.
        label=pl.when(pl.col("chosen").list.contains(relation)).then(relation + " ●").otherwise(relation),
        chosen=pl.col("chosen").list.join(", "),
    )
    return plot_heat_map(
        cells.to_dicts(),
        alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
        alt.Y("layer:O", title="layer", sort="descending"),
        {
            "layer:O": "",
            "head:O": "",
            "relation:N": "follows best",
            "chosen:N": "chosen for",
            "value:Q": "edges found|.1%",
            "n:Q": "edges|,",
        },
        legend="edges found",
        text="label" if head_count <= _LABELLED_HEADS else "",
        columns=head_count,
        step=24,
    )


plot = SectionPlot(
    title="Attention: a map of heads",
    lens=LENS,
    order=320,
    caption=(
        "Each head is labelled with the relation that it follows best on validation. The colour is the "
        "share of that relation's test edges that it finds at once (first word of the dependent). Layers "
        "and heads count from 0. Labels are drawn only if there is room. A dot after a label marks the "
        "head that was chosen for the relation: no other head finds more of it on validation. The table "
        "lists everything that a head was chosen for. The relation is the best of many, so a single cell "
        "is weaker evidence than the table of relations."
    ),
    select=lambda run: add_subject(run.scores(metrics=["first_hit"], by=FOLLOWED, lens=LENS), run),
    figure=_draw,
)
