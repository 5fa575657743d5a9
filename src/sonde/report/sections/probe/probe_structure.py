"""Syntax trees in the states: structural probes of every layer beside a chain of neighbouring tokens."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import bracket
from sonde.report.charts import colour_by_kind, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.probe import (
    BEST,
    EVERY,
    LENS,
    compute_control_value,
    find_control_row,
    list_qualifiers,
)
from sonde.results.extremes import find_extreme
from sonde.results.tables import CLUSTERS, LANGUAGE, MODEL, Column, N, Table, estimate_columns
from sonde.results.text_format import (
    COUNT,
    NO_DIFFERENCE,
    Number,
    describe_detectable,
    insufficient_data_reason,
    with_interval,
)
from sonde.stats.power import detectable_from_score

TASK = "syntax_tree"


_MEASURES = {
    "uuas": "links found (UUAS)",
    "distance_spearman": "rank correlation of distances",
    "depth_spearman": "rank correlation of depths",
}


_CONTROLS = ("neighbours", "random_weights", "gold_distances")


class ProbeStructure:
    """A line a measure over the layers."""

    title = "Structure: syntax trees in the states"
    lens = LENS
    order = 250
    caption = (
        "A projection of the states is trained so that squared distances between code tokens are those in "
        "the syntax tree (Hewitt and Manning 2019); shown are test functions. Links found are those of "
        "the predicted distances' spanning tree that a minimum spanning tree of the syntax tree's own "
        "distances has; the ceiling is what those distances themselves reach. Neighbours take each token as "
        "linked to the next one, and its place as its depth."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a model and language."""
        rows = run.scores(metrics=list(_MEASURES), lens=LENS, task=TASK, controls=True)
        if rows.is_empty():
            return None
        own = rows.filter(pl.col("control").is_null() & EVERY)
        charts = [
            Chart(
                name="-".join(["probe-structure", *list_qualifiers(run, part, "model", "language")]),
                title=", ".join(
                    ["Structural probes by layer", *list_qualifiers(run, part, "shown", "language")]
                ),
                spec=_build_spec(part.sort("layer")),
            )
            for part in own.partition_by("model", "language", maintain_order=True)
        ]
        best = rows.filter(BEST & pl.col("control").is_null())
        controls = rows.filter(BEST & pl.col("control").is_not_null())
        return Figure(
            answer=_format_answer(run, best, controls), charts=charts, table=_build_table(best, controls)
        )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {"measure": _MEASURES[row["metric"]], "layer": row["layer"], "value": row["value"]}
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)),
        color=colour_by_kind("measure"),
        tooltip=[
            alt.Tooltip("measure:N", title=" "),
            alt.Tooltip("layer:O"),
            alt.Tooltip("value:Q", format=".2f"),
        ],
    )
    layers = base.mark_line(style="trend"), base.mark_point(style="dot", filled=True)
    return to_vega_lite(alt.layer(*layers).properties(height=240))


def _format_answer(run: RunData, best: pl.DataFrame, controls: pl.DataFrame) -> str:
    lines: list[str] = []
    for row in best.filter(pl.col("metric") == "uuas").iter_rows(named=True):
        who = f"{', '.join(list_qualifiers(run, pl.DataFrame([row]), 'shown', 'language'))}: "
        chain = find_control_row(controls, row, "neighbours")
        if chain is None:
            continue
        compared = find_extreme((row, chain))
        told = compared if compared is not None and compared.is_single else None
        # A chain that does not vary has no interval: then that of the layer decides.
        low, high = row["ci_low"], row["ci_high"]
        is_ahead = told.rows[0] is row if told else compared is None and _exceeds(low, chain["value"])
        is_behind = told.rows[0] is chain if told else compared is None and _exceeds(chain["value"], high)
        against = f"a chain of neighbours with {with_interval(chain, 100, 1)} %"
        if why := insufficient_data_reason(row):
            verdict = f"against {against} ({why})"
        elif is_ahead or is_behind:
            verdict = f"{'more' if is_ahead else 'less'} than {against}"
        else:
            reach = detectable_from_score(row) if compared is None else compared.detectable
            verdict = (
                f"{NO_DIFFERENCE} from {against}{bracket(describe_detectable(reach, 100, 1, ' points'))}"
            )
        text = (
            f"layer {row['layer']}, chosen on validation, holds {with_interval(row, 100, 1)} % of the tree's "
            f"links, {verdict}."
        )
        lines.append(f"{who if who != ': ' else ''}{text}")
    return "\n".join(lines)


def _exceeds(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other


def _build_table(best: pl.DataFrame, controls: pl.DataFrame) -> Table:
    names = dict(zip(("Neighbours", "Random weights", "Ceiling"), _CONTROLS, strict=True))
    return Table(
        summary="Structural probes with their controls",
        columns=[
            MODEL,
            LANGUAGE,
            Column(title="Measure", value=lambda row: _MEASURES[row["metric"]]),
            Column(
                title="Layer", value="layer", format=COUNT, help="Chosen on validation; 0 is the embedding."
            ),
            *estimate_columns("Chosen layer's"),
            *(
                Column(
                    title=title,
                    value=lambda row, name=name: compute_control_value(controls, row, name),
                    format=Number(),
                )
                for title, name in names.items()
            ),
            N,
            CLUSTERS,
        ],
        rows=best,
    )


plot = ProbeStructure()
