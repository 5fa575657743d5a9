"""Syntax trees in the states: structural probes of every layer beside a chain of neighbouring tokens."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import by_kind, specification
from sonde.report._shared.numbers import no_verdict, with_interval
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.probe._scores import BEST, EVERY, LENS, control_row, control_value, parts
from sonde.results.extremes import find_extreme
from sonde.results.formats import COUNT, Number
from sonde.results.tables import CLUSTERS, LANGUAGE, MODEL, Column, N, estimate

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
                name="-".join(["probe-structure", *parts(run, part, "model", "language")]),
                title=", ".join(["Structural probes by layer", *parts(run, part, "shown", "language")]),
                spec=_spec(part.sort("layer")),
            )
            for part in own.partition_by("model", "language", maintain_order=True)
        ]
        best = rows.filter(BEST & pl.col("control").is_null())
        controls = rows.filter(BEST & pl.col("control").is_not_null())
        return Figure(answer=_answer(run, best, controls), charts=charts, table=_table(best, controls))


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {"measure": _MEASURES[row["metric"]], "layer": row["layer"], "value": row["value"]}
        for row in rows.iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)),
        color=by_kind("measure"),
        tooltip=[
            alt.Tooltip("measure:N", title=" "),
            alt.Tooltip("layer:O"),
            alt.Tooltip("value:Q", format=".2f"),
        ],
    )
    layers = base.mark_line(style="trend"), base.mark_point(style="dot", filled=True)
    return specification(alt.layer(*layers).properties(height=240))


def _answer(run: RunData, best: pl.DataFrame, controls: pl.DataFrame) -> str:
    lines: list[str] = []
    for row in best.filter(pl.col("metric") == "uuas").iter_rows(named=True):
        who = f"{', '.join(parts(run, pl.DataFrame([row]), 'shown', 'language'))}: "
        chain = control_row(controls, row, "neighbours")
        if no_verdict(row) or row["ci_low"] is None or chain is None:
            continue
        compared = find_extreme((row, chain))
        is_ahead = (
            row["ci_low"] > chain["value"]
            if compared is None
            else compared.is_single and compared.rows[0] is row
        )
        verdict = "more than" if is_ahead else "not clearly more than"
        text = (
            f"layer {row['layer']}, chosen on validation, holds {with_interval(row, 100, 1)} % of the tree's "
            f"links, {verdict} a chain of neighbours with {with_interval(chain, 100, 1)} %."
        )
        lines.append(f"{who if who != ': ' else ''}{text}")
    return "\n".join(lines)


def _table(best: pl.DataFrame, controls: pl.DataFrame) -> Table:
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
            *estimate("Chosen layer's"),
            *(
                Column(
                    title=title,
                    value=lambda row, name=name: control_value(controls, row, name),
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
