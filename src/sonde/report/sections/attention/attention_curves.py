"""Hits by the number of candidates that count (CodeSyntax, figure 2 and appendix D)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_meaning, list_tooltips, plot_lines, split_by_subject
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import AVERAGE, HITS, LEGEND, LENS, PREDICTORS, read_hits


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    chart_rows = rows.sort("k").select(
        "k", "value", low="ci_low", high="ci_high", predictor=pl.col("predictor").replace(PREDICTORS)
    )
    scale = alt.Scale(domain=[0, 1], nice=False)
    base = alt.Chart(alt.Data(values=chart_rows.to_dicts())).encode(
        x=alt.X("k:Q", title="candidates that count (k)", scale=alt.Scale(domain=[1, 20], nice=False)),
        color=colour_by_meaning("predictor", LEGEND, set(chart_rows["predictor"])),
        tooltip=list_tooltips({"predictor:N": " ", "k:Q": "", "value:Q": "found|.1%"}),
    )
    y = alt.Y("value:Q", title="edges found", scale=scale, axis=alt.Axis(format="%"))
    return plot_lines(base, y, band=alt.Y("low:Q", scale=scale), points=False, height=300)


plot = SectionPlot(
    title="Attention: more candidates",
    lens=LENS,
    order=330,
    caption=(
        "Share of edges found within the first k words, averaged over relations, with 95 % intervals. A "
        "baseline may try up to k offsets or keywords; validation chooses each further one for the edges "
        "that the others miss. If a baseline ends below the heads, no fixed distance or keyword finds "
        "those edges."
    ),
    select=lambda run: read_hits(run, AVERAGE),
    figure=lambda run, rows: Figure(
        charts=[
            Chart(
                name=f"attention-curves-{metric.removesuffix('_hit')}{suffix}",
                title=f"{HITS[metric].capitalize()}, {subject}",
                spec=_build_spec(part.filter(pl.col("metric") == metric)),
            )
            for subject, suffix, part in split_by_subject(rows)
            for metric in ("first_hit", "any_hit")
        ]
    ),
)
