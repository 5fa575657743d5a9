"""How far dependents stand from their heads, relation by relation (CodeSyntax, figure 3)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.languages import format_language
from sonde.report.charts import colour_by_kind, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.attention import DISTANCE, LENS, MODEL, RELATION, read_hits
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, Column, Table, score_columns
from sonde.results.text_format import caveat, with_interval


class AttentionOffsets:
    """A histogram of relations by mean distance, and hits by distance."""

    title = "Attention: near and far relations"
    lens = LENS
    order = 340
    caption = (
        "Mean distance, in words, from the word that is asked to the first word that it is asked for. "
        "Relations below ten are near, the others far (CodeSyntax, section 2); the table has each mean with "
        "its interval, over all edges of the run."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One column a distance, stacked by language and side."""
        rows = run.scores(metrics=["mean_offset"], lens=LENS)
        if rows.is_empty():
            return None
        # What the code says is the same for all models.
        rows = rows.with_columns(relation=dimension_value(RELATION), distance=dimension_value(DISTANCE))
        rows = rows.unique(["language", "side", "relation"], keep="first", maintain_order=True)
        chart = Chart(
            name="attention-offsets", title="Relations by mean distance", spec=_build_spec(rows), wide=True
        )
        return Figure(answer=_format_answer(run, rows), charts=[chart], table=_build_table(rows))


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    several = rows["language"].n_unique() > 1
    side = rows["side"].unique(maintain_order=True).to_list()[0]
    records = [
        {"relation": row["relation"], "language": row["language"], "offset": row["value"], "n": row["n"]}
        for row in rows.filter(pl.col("side") == side).iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("offset:Q", title="mean distance in words", bin=alt.Bin(maxbins=40)),
        y=alt.Y("count():Q", title="relations"),
        tooltip=[
            alt.Tooltip("offset:Q", bin=alt.Bin(maxbins=40), title="distance"),
            alt.Tooltip("count():Q", title="relations"),
        ],
    )
    if several:
        base = base.encode(color=colour_by_kind("language"))
    return to_vega_lite(base.mark_bar(style="neutral", binSpacing=1).properties(height=220))


def _format_answer(run: RunData, rows: pl.DataFrame) -> str:
    said: list[str] = []
    for (language,), part in rows.partition_by("language", as_dict=True, maintain_order=True).items():
        names = part.unique("relation", keep="first")
        near = names.filter(pl.col("distance") == "near").height
        far = names.height - near
        said.append(
            f"{format_language(str(language))}: {near} near relation{'s' * (near != 1)}, "
            f"{far} far one{'s' * (far != 1)}."
        )
    found = read_hits(run, by=DISTANCE).filter((pl.col("k") == 1) & (pl.col("metric") == "first_hit"))
    for (subject,), part in found.partition_by("subject", as_dict=True, maintain_order=True).items():
        shares = {
            (row["label"], row["predictor"]): f"{with_interval(row, 100, 1)} %"
            for row in part.iter_rows(named=True)
        }
        few = {row["label"]: caveat(row) for row in part.iter_rows(named=True) if row["predictor"] == MODEL}
        said += [
            f"{subject}, {distance}: best heads {shares[distance, MODEL]}, offset "
            f"{shares[distance, 'offset']} of first words found at once{few[distance]}."
            for distance in ("near", "far")
            if (distance, MODEL) in shares and (distance, "offset") in shares
        ]
    return "\n".join(said)


def _build_table(rows: pl.DataFrame) -> Table:
    return Table(
        summary="Every relation's mean distance",
        columns=[
            Column(title="Relation", value="relation", help="The relation between two words in the syntax."),
            LANGUAGE,
            Column(title="Side", value="side"),
            Column(title="Distance", value="distance", help="What is counted between the two words."),
            *score_columns("Mean", 1, n="Edges"),
        ],
        rows=_nearest_first(rows),
    )


def _nearest_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Nearest relations first."""
    return rows.sort("language", "value", "relation")


plot = AttentionOffsets()
