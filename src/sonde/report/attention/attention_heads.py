"""A map of heads: which relation each follows best, and how well."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import specification
from sonde.report._shared.numbers import number
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.attention._scores import FOLLOWED, LENS, with_subject
from sonde.results.formats import COUNT, PERCENT
from sonde.results.tables import Column


class AttentionHeads:
    """Layers by heads, coloured by the share of edges found."""

    title = "Attention: a map of heads"
    lens = LENS
    order = 320
    caption = (
        "Each head with the relation that it follows best on validation, and the share of that relation's "
        "edges that it finds at once on test (first word of the dependent). Layers and heads count from 0. "
        "The relation is the best of many, so a single cell says less than the table of relations."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One map a subject."""
        rows = with_subject(run.scores(metrics=["first_hit"], by=FOLLOWED, lens=LENS), run)
        if rows.is_empty():
            return None
        parts = rows.partition_by("subject", as_dict=True, maintain_order=True)
        charts = [
            Chart(
                name=f"attention-heads-{place}" if len(parts) > 1 else "attention-heads",
                title=f"Best relation of each head, {subject}",
                spec=_spec(part),
                wide=True,
            )
            for place, ((subject,), part) in enumerate(parts.items())
        ]
        return Figure(answer=_answer(parts), charts=charts, table=_table(rows))


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "layer": row["layer"],
            "head": row["head"],
            "relation": row["label"],
            "value": row["value"],
            "n": row["n"],
        }
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("layer:O", title="layer", sort="descending"),
        tooltip=[
            alt.Tooltip("layer:O"),
            alt.Tooltip("head:O"),
            alt.Tooltip("relation:N"),
            alt.Tooltip("value:Q", format=".1%", title="edges found"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
    )
    colour = alt.Color(
        "value:Q", title="edges found", scale=alt.Scale(domain=[0, 1]), legend=alt.Legend(format="%")
    )
    return specification(base.mark_rect().encode(color=colour).properties(height=alt.Step(22)))


def _answer(parts: dict[tuple[object, ...], pl.DataFrame]) -> str:
    said: list[str] = []
    for (subject,), part in parts.items():
        best = part.sort("value", descending=True).row(0, named=True)
        said.append(
            f"{subject}: {part['label'].n_unique()} relations are the best of some head; "
            f"head {best['head']} of layer {best['layer']} finds {number(100 * best['value'], 1)} % "
            f"of {best['label']}."
        )
    return "\n".join(said)


def _table(rows: pl.DataFrame) -> Table:
    return Table(
        summary="Every head",
        columns=[
            Column(title="Of", value="subject"),
            Column(title="Layer", value="layer", format=COUNT, help="Counted from 0, the lowest."),
            Column(title="Head", value="head", format=COUNT, help="Its number in the layer, from 0."),
            Column(title="Best relation", value="label", help="The relation that the head finds most often."),
            Column(title="Found, %", format=PERCENT, help="Edges whose other end it attends to most."),
            Column(title="Edges", value="n", format=COUNT),
        ],
        rows=rows.sort("value", descending=True, maintain_order=True),
    )


plot = AttentionHeads()
