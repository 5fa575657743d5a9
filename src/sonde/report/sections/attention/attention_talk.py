"""One figure for a talk: few relations, large type, and a complete legend."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_meaning, list_tooltips, split_by_subject, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import LENS, MODEL, RELATION, read_gains, read_hits
from sonde.report.text import to_chart_record
from sonde.stats.verdict import allows_verdict

_MAX_RELATIONS = 6


_FONT_SIZE = 20


_LABELS = {
    "": "best attention head",
    "combined": "best fixed rule (a distance or a keyword)",
    "random_weights": "best head, untrained model",
}


_IS_FIRST_HIT = (pl.col("k") == 1) & (pl.col("metric") == "first_hit")


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each subject."""
    gains = read_gains(run, by=RELATION).filter(_IS_FIRST_HIT & (pl.col("compared_to") == "combined"))
    conclusive = [
        (row["subject"], row["label"]) for row in gains.iter_rows(named=True) if allows_verdict(row)
    ]
    return Figure(
        charts=[
            Chart(
                name=f"attention-talk{suffix}",
                title=f"Do attention heads find syntax? {subject}",
                spec=_build_spec(part, {label for owner, label in conclusive if owner == subject}),
                wide=True,
                large=True,
            )
            for subject, suffix, part in split_by_subject(rows)
        ]
    )


def _build_spec(rows: pl.DataFrame, conclusive: Set[str]) -> dict[str, Any]:
    # The relations with most edges, of those whose difference allows a verdict where there are enough.
    model_rows = rows.filter(pl.col("predictor") == MODEL).sort("n", "label", descending=[True, False])
    conclusive_rows = model_rows.filter(pl.col("label").is_in(conclusive))
    chart_rows = (
        (conclusive_rows if conclusive_rows.height >= 3 else model_rows)
        .head(_MAX_RELATIONS)
        .sort("value", descending=True, maintain_order=True)
    )
    records: list[dict[str, Any]] = [
        {
            "relation": _format_relation(row["label"]),
            "whose": _LABELS["" if row["predictor"] == MODEL else row["predictor"]],
            **to_chart_record(row),
        }
        for row in rows.filter(pl.col("label").is_in(chart_rows["label"].to_list())).iter_rows(named=True)
    ]
    present: set[str] = {record["whose"] for record in records}
    look: dict[str, Any] = {
        "direction": "vertical",
        "columns": 1,
        "labelFontSize": _FONT_SIZE,
        "symbolSize": 260,
        "labelLimit": 700,
    }
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(format="%", labelFontSize=_FONT_SIZE, titleFontSize=_FONT_SIZE, tickCount=5)
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y(
            "relation:N",
            sort=[_format_relation(label) for label in chart_rows["label"]],
            title=None,
            axis=alt.Axis(labelFontSize=_FONT_SIZE, labelLimit=400, labelPadding=12),
        ),
        yOffset=alt.YOffset("whose:N", sort=[word for word in _LABELS.values() if word in present]),
        color=colour_by_meaning("whose", _LABELS, present, **look),
        tooltip=list_tooltips({"relation:N": " ", "whose:N": "of", "reading:N": "% found", "n:Q": "edges|,"}),
    )
    intervals = base.mark_rule(style="spread", clip=True, strokeWidth=4)
    dots = base.mark_point(style="dot", filled=True, size=260)
    return to_vega_lite(
        alt.layer(
            intervals.encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
            dots.encode(x=alt.X("value:Q", title="edges found at the first try", scale=scale, axis=axis)),
        ).properties(height=alt.Step(64, **{"for": "position"}))
    )


def _format_relation(label: str) -> str:
    return label.replace("->", " → ").replace(":", ": ")


plot = SectionPlot(
    title="Attention: a figure for a talk",
    lens=LENS,
    order=315,
    caption=(
        "At most six relations: those with most edges among those whose difference between head and rule "
        "allows a verdict (among all, if fewer than three do). So none is picked by who wins. Share of "
        "edges found at the first try, on functions that neither heads nor rules were chosen on, with 95 % "
        "intervals. sonde figures DIR attention_talk writes it as SVG, PDF and PNG."
    ),
    select=lambda run: read_hits(run, by=RELATION).filter(
        _IS_FIRST_HIT & pl.col("predictor").is_in([MODEL, *("combined", "random_weights")])
    ),
    figure=_draw,
)
