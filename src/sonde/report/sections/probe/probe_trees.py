"""Whole syntax trees given back from the states: F1 of their constituents by layer and rank."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.probe import (
    CHOSEN_LAYER,
    LENS,
    control_columns,
    find_control_row,
    plot_by_layer,
    start_sentence,
)
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import (
    COUNT,
    NO_DIFFERENCE,
    PERCENT,
    SHARE,
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
    """Draw one chart per model and language."""
    rows = rows.with_columns(rank=dimension_value("rank"), series=dimension_value("rank"))
    best = dimension_value("selection") == "best"
    layer_rows = rows.filter((pl.col("metric") == "tree_f1") & dimension_value("selection").is_null())
    best_rows = rows.filter(best & dimension_value("share").is_null())
    share_rows = rows.filter(best & dimension_value("share").is_not_null())
    table_rows = best_rows.filter(pl.col("control").is_null() & pl.col("metric").is_in(list(_MEASURES)))
    key = ["model", "language", "metric"]
    model_on_share = share_rows.filter(pl.col("control").is_null()).unique(
        key, keep="first", maintain_order=True
    )
    sorted_rows = layer_rows.sort(pl.col("rank").cast(pl.Int32), maintain_order=True)
    return Figure(
        answer="\n".join(_list_answers(run, best_rows)),
        charts=plot_by_layer(
            run,
            sorted_rows,
            "probe-trees",
            "F1 of trees by layer and rank",
            "F1 of constituents",
            legend="rank",
        ),
        table=Table(
            summary="Whole trees with their controls",
            columns=[
                MODEL,
                LANGUAGE,
                Column(title="Measure", value=lambda row: _MEASURES[row["metric"]]),
                CHOSEN_LAYER,
                Column(
                    title="Rank",
                    value=lambda row: int(row["rank"]),
                    format=COUNT,
                    help="Directions of the subspace.",
                ),
                *estimate_columns("Chosen layer's, %", 1, 100),
                *control_columns(
                    best_rows,
                    {f"{title}, %": name for title, name in _CONTROLS.items() if name != "left_branching"},
                    PERCENT,
                ),
                *control_columns(
                    share_rows,
                    {"Random weights, %": "random_weights"},
                    PERCENT,
                    help="The same architecture, never trained, on the share of functions that it read.",
                ),
                Column(
                    title="The model there, %", value="on_share", format=PERCENT, help="On the same share."
                ),
                *size_columns("Functions"),
            ],
            rows=table_rows.join(
                model_on_share.select(*key, on_share="value"), on=key, how="left", maintain_order="left"
            ),
        ),
    )


def _list_answers(run: RunData, best: pl.DataFrame) -> Iterator[str]:
    gains = best.filter(pl.col("metric") == "tree_f1_gain")
    scores = best.filter((pl.col("metric") == "tree_f1") & pl.col("control").is_null())
    for row in scores.iter_rows(named=True):
        key = {name: row[name] for name in ("model", "language")}
        gain = next(gains.filter(**key).iter_rows(named=True), None)
        control = None if gain is None else find_control_row(best, row, gain["control"])
        if gain is None or control is None:
            continue
        control_name = next(title for title, name in _CONTROLS.items() if name == gain["control"]).lower()
        reach = SHARE.detectable(detectable_from_score(gain))
        tail = ""
        if reason := insufficient_data_reason(gain):
            verdict, tail = "against", reason
        elif gain["ci_low"] <= 0 <= gain["ci_high"]:
            verdict, tail = f"{NO_DIFFERENCE} from", reach
        else:
            verdict = "more than" if gain["ci_low"] > 0 else "less than"
        yield (
            f"{start_sentence(run, row)}trees from layer {row['layer']}, chosen on validation, have an "
            f"F1 of {with_interval(row, 100, 1)} %, {verdict} {control_name} with "
            f"{with_interval(control, 100, 1)} % "
            f"(difference {with_interval(gain, 100, 1)} points{f'; {tail}' if tail else ''})."
        )


plot = SectionPlot(
    title="Structure: whole trees given back",
    lens=LENS,
    order=251,
    caption=(
        "Probes predict for each pair of neighbouring code tokens how high the lowest node around both is "
        "and which node that is, and for each token the node that it fills alone. Together that is a whole "
        "tree (AST-Probe, Hernández López et al. 2022). Shown are test functions; right is a node of the "
        "right kind around the right tokens. Layer and rank (the number of directions that a tree is read "
        "from) are chosen on validation. The token pairs baseline gives the commonest answer between the "
        "same two words, with names and literals as one word each. A branching tree joins each token with "
        "all that follow (right) or precede (left) it, under the commonest labels. The ceiling is the tree "
        "itself without labels that no training function has."
    ),
    select=lambda run: run.scores(metrics=[*_MEASURES, "tree_f1_gain"], lens=LENS, task=TASK, controls=True),
    figure=_draw,
)
