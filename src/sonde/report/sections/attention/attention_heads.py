"""A map of heads: which relation each follows best, and how well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import label_cells, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.attention import FOLLOWED, LENS, add_subject, find_best_heads
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, PERCENT

_LABELLED_HEADS = 6
"""Heads of a layer beyond which names do not fit into the cells."""


class AttentionHeads:
    """Layers by heads, coloured by the share of edges found."""

    title = "Attention: a map of heads"
    lens = LENS
    order = 320
    caption = (
        "Each head with the relation that it follows best on validation, and the share of that relation's "
        "edges that it finds at once on test (first word of the dependent). Layers and heads count from "
        "0. A label names that relation, where there is room; a dot behind it says that no other head "
        "finds more of it on validation, so that this one was chosen for it. The table has all that a "
        "head was chosen for. The relation is the best of many, so a single cell says less than the table "
        "of relations."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One map a subject."""
        rows = add_subject(run.scores(metrics=["first_hit"], by=FOLLOWED, lens=LENS), run)
        if rows.is_empty():
            return None
        chosen = find_best_heads(run)
        parts = rows.partition_by("subject", as_dict=True, maintain_order=True)
        charts = [
            Chart(
                name=f"attention-heads-{place}" if len(parts) > 1 else "attention-heads",
                title=f"Best relation of each head, {subject}",
                spec=_build_spec(part, chosen.get(str(subject), {})),
                wide=True,
            )
            for place, ((subject,), part) in enumerate(parts.items())
        ]
        return Figure(answer=_format_answer(parts), charts=charts, table=_build_table(rows, chosen))


def _label(followed: str, chosen: list[str]) -> str:
    """The relation that a head follows best, with a dot where it was chosen for it."""
    return f"{followed} ●" if followed in chosen else followed


def _build_spec(rows: pl.DataFrame, best: dict[tuple[int, int], list[str]]) -> dict[str, Any]:
    records = [
        {
            "layer": row["layer"],
            "head": row["head"],
            "relation": row["label"],
            "value": row["value"],
            "n": row["n"],
            "label": _label(row["label"], best.get((row["layer"], row["head"]), [])),
            "chosen": ", ".join(best.get((row["layer"], row["head"]), [])),
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("layer:O", title="layer", sort="descending"),
        tooltip=[
            alt.Tooltip("layer:O"),
            alt.Tooltip("head:O"),
            alt.Tooltip("relation:N", title="follows best"),
            alt.Tooltip("chosen:N", title="chosen for"),
            alt.Tooltip("value:Q", format=".1%", title="edges found"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
    )
    colour = alt.Color(
        "value:Q", title="edges found", scale=alt.Scale(domain=[0, 1]), legend=alt.Legend(format="%")
    )
    layers = [base.mark_rect().encode(color=colour)]
    if rows["head"].n_unique() <= _LABELLED_HEADS:
        layers += label_cells(base, "label:N", rows["head"].n_unique())
    return to_vega_lite(alt.layer(*layers).properties(height=alt.Step(24)))


def _format_answer(parts: dict[tuple[object, ...], pl.DataFrame]) -> str:
    """How many relations heads follow; no cell has an interval, so that none is named."""
    return "\n".join(
        f"{subject}: {plural(part.height, 'head')} follow{'s' * (part.height == 1)} "
        f"{plural(part['label'].n_unique(), 'relation')}, each head the one that it finds most of on "
        "validation."
        for (subject,), part in parts.items()
    )


def _build_table(rows: pl.DataFrame, chosen: dict[str, dict[tuple[int, int], list[str]]]) -> Table:
    def of(row: Mapping[str, Any]) -> str | None:
        return ", ".join(chosen.get(row["subject"], {}).get((row["layer"], row["head"]), [])) or None

    return Table(
        summary="Every head",
        columns=[
            Column(title="Of", value="subject"),
            Column(title="Layer", value="layer", format=COUNT, help="Counted from 0, the lowest."),
            Column(title="Head", value="head", format=COUNT, help="Its number in the layer, from 0."),
            Column(
                title="Best relation", value="label", help="The relation that it finds most of on validation."
            ),
            Column(title="Found, %", format=PERCENT, help="Edges whose other end it attends to most."),
            Column(title="Edges", value="n", format=COUNT),
            Column(title="Chosen for", value=of, help="Relations that it finds most of on validation."),
        ],
        rows=rows.sort("value", descending=True, maintain_order=True),
    )


plot = AttentionHeads()
