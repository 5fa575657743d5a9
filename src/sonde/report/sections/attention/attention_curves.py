"""Hits by the number of candidates that count (CodeSyntax, figure 2 and appendix D)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_meaning, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.attention import AVERAGE, HITS, LENS, MEANT, PREDICTORS, read_hits


class AttentionCurves:
    """A line a predictor over k, with its interval as a band."""

    title = "Attention: more candidates"
    lens = LENS
    order = 330
    caption = (
        "Share of edges found within the first k words, averaged over relations, with 95 % intervals. Of a "
        "baseline up to k offsets or keywords are tried, each further one chosen on validation for the edges "
        "that the others miss. Where a baseline ends below the heads, no fixed distance or keyword reaches "
        "those edges."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a subject and metric."""
        rows = read_hits(run, AVERAGE)
        if rows.is_empty():
            return None
        subjects = rows["subject"].unique(maintain_order=True).to_list()
        charts: list[Chart] = []
        for place, subject in enumerate(subjects):
            for metric in ("first_hit", "any_hit"):
                part = rows.filter((pl.col("subject") == subject) & (pl.col("metric") == metric))
                ending = metric.removesuffix("_hit") + (f"-{place}" if len(subjects) > 1 else "")
                charts.append(
                    Chart(
                        name=f"attention-curves-{ending}",
                        title=f"{HITS[metric].capitalize()}, {subject}",
                        spec=_build_spec(part),
                    )
                )
        return Figure(charts=charts)


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "predictor": PREDICTORS[row["predictor"]],
            "k": row["k"],
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
        }
        for row in rows.sort("k").iter_rows(named=True)
    ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("k:Q", title="candidates that count (k)", scale=alt.Scale(domain=[1, 20], nice=False)),
        color=colour_by_meaning("predictor", MEANT, set(rows["predictor"].replace(PREDICTORS))),
        tooltip=[
            alt.Tooltip("predictor:N", title=" "),
            alt.Tooltip("k:Q"),
            alt.Tooltip("value:Q", format=".1%", title="found"),
        ],
    )
    y = alt.Y("value:Q", title="edges found", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        base.mark_area(style="band", clip=True).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(style="trend", clip=True).encode(y=y),
    ]
    return to_vega_lite(alt.layer(*layers).properties(height=300))


plot = AttentionCurves()
