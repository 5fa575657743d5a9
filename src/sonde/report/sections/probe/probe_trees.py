"""Whole syntax trees given back from the states: F1 of their constituents by layer and rank."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import colour_by_kind, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import LENS, compute_control_value, find_control_row, list_qualifiers
from sonde.report.text import lacks_verdict
from sonde.results.schema import dimension_value
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

TASK = "whole_trees"


_MEASURES = {
    "tree_f1": "F1 of constituents",
    "tree_precision": "precision",
    "tree_recall": "recall",
    "bracket_f1": "F1 without labels",
}


_CONTROLS = {
    "Token pairs": "token_pairs",
    "Right-branching": "right_branching",
    "Left-branching": "left_branching",
    "Ceiling": "gold_tree",
}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a model and language."""
    rows = rows.with_columns(rank=dimension_value("rank"))
    best = dimension_value("selection") == "best"
    every = rows.filter((pl.col("metric") == "tree_f1") & dimension_value("selection").is_null())
    charts = [
        Chart(
            name="-".join(["probe-trees", *list_qualifiers(run, part, "model", "language")]),
            title=", ".join(
                ["F1 of trees by layer and rank", *list_qualifiers(run, part, "shown", "language")]
            ),
            spec=_build_spec(part.sort("layer")),
        )
        for part in every.partition_by("model", "language", maintain_order=True)
    ]
    own = rows.filter(best & dimension_value("share").is_null())
    beside = rows.filter(best & dimension_value("share").is_not_null())
    return Figure(answer=_format_answer(run, own), charts=charts, table=_build_table(own, beside))


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    shown = rows.select("layer", "value", "rank").sort(pl.col("rank").cast(pl.Int32), "layer")
    base = alt.Chart(alt.Data(values=shown.to_dicts())).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("value:Q", title="F1 of constituents", scale=alt.Scale(zero=True)),
        color=colour_by_kind("rank", "rank"),
        tooltip=[alt.Tooltip("rank:N"), alt.Tooltip("layer:O"), alt.Tooltip("value:Q", format=".2f")],
    )
    layers = base.mark_line(style="trend"), base.mark_point(style="dot", filled=True)
    return to_vega_lite(alt.layer(*layers).properties(height=240))


def _format_answer(run: RunData, best: pl.DataFrame) -> str:
    lines: list[str] = []
    gains = best.filter(pl.col("metric") == "tree_f1_gain")
    for row in best.filter((pl.col("metric") == "tree_f1") & pl.col("control").is_null()).iter_rows(
        named=True
    ):
        same = [pl.col(name) == row[name] for name in ("model", "language")]
        gain = next(gains.filter(*same).iter_rows(named=True), None)
        if gain is None:
            continue
        named = next(title for title, name in _CONTROLS.items() if name == gain["control"]).lower()
        control = find_control_row(best, row, gain["control"])
        if control is None:
            continue
        if lacks_verdict(gain):
            verdict = "against"
        elif gain["ci_low"] <= 0 <= gain["ci_high"]:
            verdict = f"{NO_DIFFERENCE} from"
        else:
            verdict = "more than" if gain["ci_low"] > 0 else "less than"
        told = insufficient_data_reason(gain) or describe_detectable(
            detectable_from_score(gain), 100, 1, " points"
        )
        tail = f"; {told}" if verdict in ("against", f"{NO_DIFFERENCE} from") and told else ""
        who = ", ".join(list_qualifiers(run, pl.DataFrame([row]), "shown", "language"))
        lines.append(
            f"{who + ': ' if who else ''}trees from layer {row['layer']}, chosen on validation, have an F1 "
            f"of {with_interval(row, 100, 1)} %, {verdict} {named} with {with_interval(control, 100, 1)} % "
            f"(difference {with_interval(gain, 100, 1)} points{tail})."
        )
    return "\n".join(lines)


def _build_table(best: pl.DataFrame, beside: pl.DataFrame) -> Table:
    own = beside.filter(pl.col("control").is_null())

    def on_share(row: Any) -> float | None:
        same = [pl.col(name) == row[name] for name in ("model", "language", "metric")]
        held = own.filter(*same)["value"]
        return None if held.is_empty() else held[0]

    return Table(
        summary="Whole trees with their controls",
        columns=[
            MODEL,
            LANGUAGE,
            Column(title="Measure", value=lambda row: _MEASURES[row["metric"]]),
            Column(
                title="Layer", value="layer", format=COUNT, help="Chosen on validation; 0 is the embedding."
            ),
            Column(
                title="Rank",
                value=lambda row: int(row["rank"]),
                format=COUNT,
                help="Directions of the subspace.",
            ),
            *estimate_columns("Chosen layer's"),
            *(
                Column(
                    title=title,
                    value=lambda row, name=name: compute_control_value(best, row, name),
                    format=Number(),
                )
                for title, name in _CONTROLS.items()
                if name != "left_branching"
            ),
            Column(
                title="Random weights",
                value=lambda row: compute_control_value(beside, row, "random_weights"),
                format=Number(),
                help="The same architecture, never trained, on the share of functions that it read.",
            ),
            Column(title="The model there", value=on_share, format=Number(), help="On the same share."),
            N,
            CLUSTERS,
        ],
        rows=best.filter(pl.col("control").is_null() & pl.col("metric").is_in(list(_MEASURES))),
    )


plot = SectionPlot(
    title="Structure: whole trees given back",
    lens=LENS,
    order=251,
    caption=(
        "Probes say of each pair of neighbouring code tokens how high the lowest node around both stands and "
        "what it is, and of each token which node it fills alone; that is a whole tree (AST-Probe, Hernández "
        "López et al. 2022). Shown are test functions; right is a node of the right kind around the right "
        "tokens. Layer and rank (directions that a tree is read from) are chosen on validation. Token pairs "
        "say what is commonest between the same two words, names and literals being one word each; a "
        "branching tree joins each token with all that follow (right) or precede (left) it, under the "
        "commonest labels; the ceiling is the tree itself without labels that no training function has."
    ),
    select=lambda run: run.scores(metrics=[*_MEASURES, "tree_f1_gain"], lens=LENS, task=TASK, controls=True),
    figure=_draw,
)
