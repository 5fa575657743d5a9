"""One figure for a talk: few relations, large type, and a legend that stands alone."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_meaning, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import LENS, MODEL, RELATION, read_gains, read_hits
from sonde.report.text import to_chart_record
from sonde.stats.verdict import allows_verdict

_FEW = 6


_TYPE = 20


_WORDS = {
    "": "best attention head",
    "combined": "best fixed rule (a distance or a keyword)",
    "random_weights": "best head, untrained model",
}


_BASELINES = ("combined", "random_weights")


def _draw(run: RunData, models: object) -> Figure | None:
    """One chart a subject."""
    first = (pl.col("k") == 1) & (pl.col("metric") == "first_hit")
    rows = read_hits(run, by=RELATION).filter(first & pl.col("predictor").is_in([MODEL, *_BASELINES]))
    if rows.is_empty():
        return None
    ahead = read_gains(run, "combined", by=RELATION).filter(first)
    parts = rows.partition_by("subject", as_dict=True, maintain_order=True)
    charts = [
        Chart(
            name=f"attention-talk-{place}" if len(parts) > 1 else "attention-talk",
            title=f"Do attention heads find syntax? {subject}",
            spec=_build_spec(
                part.filter(pl.col("label").is_in(_select_relations(part, ahead, str(subject))))
            ),
            wide=True,
            large=True,
        )
        for place, ((subject,), part) in enumerate(parts.items())
    ]
    return Figure(charts=charts)


def _select_relations(rows: pl.DataFrame, ahead: pl.DataFrame, subject: str) -> list[str]:
    """The relations with most edges, of those whose difference allows a verdict where there are enough."""
    own = rows.filter(pl.col("predictor") == MODEL).sort("n", "label", descending=[True, False])
    differences = ahead.filter(pl.col("subject") == subject).iter_rows(named=True)
    sure = {row["label"] for row in differences if allows_verdict(row)}
    names = own["label"].to_list()
    held = [name for name in names if name in sure]
    return (held if len(held) >= 3 else names)[:_FEW]


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records: list[dict[str, Any]] = [
        {
            "relation": row["label"].replace("->", " → ").replace(":", ": "),
            "whose": _WORDS["" if row["predictor"] == MODEL else row["predictor"]],
            **to_chart_record(row),
        }
        for row in rows.iter_rows(named=True)
    ]
    own = [one for one in records if one["whose"] == _WORDS[""]]
    own.sort(key=lambda one: one["value"], reverse=True)
    order: list[str] = [one["relation"] for one in own]
    present: set[str] = {one["whose"] for one in records}
    shown = [word for word in _WORDS.values() if word in present]
    look: dict[str, Any] = {
        "direction": "vertical",
        "columns": 1,
        "labelFontSize": _TYPE,
        "symbolSize": 260,
        "labelLimit": 700,
    }
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(format="%", labelFontSize=_TYPE, titleFontSize=_TYPE, tickCount=5)
    x = alt.X("value:Q", title="edges found at the first try", scale=scale, axis=axis)
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y(
            "relation:N",
            sort=order,
            title=None,
            axis=alt.Axis(labelFontSize=_TYPE, labelLimit=400, labelPadding=12),
        ),
        color=colour_by_meaning("whose", _WORDS, present, **look),
        tooltip=[
            alt.Tooltip("relation:N", title=" "),
            alt.Tooltip("whose:N", title="of"),
            alt.Tooltip("reading:N", title="% found"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
    )
    layers = [
        base.mark_rule(style="spread", clip=True, strokeWidth=4).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q"
        ),
        base.mark_point(style="dot", filled=True, size=260).encode(x=x),
    ]
    offset = alt.YOffset("whose:N", sort=shown)
    return to_vega_lite(
        alt.layer(*(layer.encode(yOffset=offset) for layer in layers)).properties(
            height=alt.Step(64, **{"for": "position"})
        )
    )


plot = SectionPlot(
    title="Attention: a figure for a talk",
    lens=LENS,
    order=315,
    caption=(
        "The relations with most edges among those whose difference between head and rule allows a "
        "verdict (among all, where fewer than three do), six at most, so that none is picked by who wins. "
        "Share of edges found at the first try, on functions that heads and rules were not chosen on, "
        "with 95 % intervals. sonde figures DIR attention_talk writes it as SVG, PDF and PNG."
    ),
    select=lambda run: run.models,
    figure=_draw,
)
