"""Syntax trees in the states: structural probes of every layer, and a chain of neighbouring tokens."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.base.formatting import bracket
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.probe import (
    BEST,
    CHOSEN_LAYER,
    EVERY,
    LENS,
    control_columns,
    find_control_row,
    plot_by_layer,
    start_sentence,
)
from sonde.results.extremes import find_extreme
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import (
    NO_DIFFERENCE,
    PERCENT,
    SHARE,
    Number,
    Row,
    insufficient_data_reason,
    with_interval,
)
from sonde.stats.power import detectable_from_score

TASK = "syntax_tree"


_MEASURES = {
    "uuas": "links found (UUAS), %",
    "distance_spearman": "rank correlation of distances",
    "depth_spearman": "rank correlation of depths",
}


def _form(row: Row) -> Number:
    """Choose the format of a measure: a share of links in per cent, a correlation as it is."""
    return PERCENT if row["metric"] == "uuas" else Number()


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one chart per model and language."""
    layer_rows = rows.filter(pl.col("control").is_null() & EVERY)
    best = rows.filter(BEST & pl.col("control").is_null())
    controls = rows.filter(BEST & pl.col("control").is_not_null())
    series_rows = layer_rows.with_columns(series=pl.col("metric").replace(_MEASURES))
    return Figure(
        answer="\n".join(_list_answers(run, best, controls)),
        charts=plot_by_layer(run, series_rows, "probe-structure", "Structural probes by layer"),
        table=Table(
            summary="Structural probes with their controls",
            columns=[
                MODEL,
                LANGUAGE,
                Column(title="Measure", value=lambda row: _MEASURES[row["metric"]]),
                CHOSEN_LAYER,
                *estimate_columns(
                    "Chosen layer's", lambda row: _form(row).digits, lambda row: _form(row).scale
                ),
                *control_columns(
                    controls,
                    {
                        "Neighbours": "neighbours",
                        "Random weights": "random_weights",
                        "Ceiling": "gold_distances",
                    },
                    _form,
                ),
                *size_columns("Functions"),
            ],
            rows=best,
        ),
    )


def _list_answers(run: RunData, best: pl.DataFrame, controls: pl.DataFrame) -> Iterator[str]:
    for row in best.filter(pl.col("metric") == "uuas").iter_rows(named=True):
        chain = find_control_row(controls, row, "neighbours")
        if chain is None:
            continue
        extreme = find_extreme((row, chain))
        decisive = extreme if extreme is not None and extreme.is_single else None
        # A chain that does not vary has no interval: then that of the layer decides.
        low, high = row["ci_low"], row["ci_high"]
        is_ahead = decisive.rows[0] is row if decisive else extreme is None and _exceeds(low, chain["value"])
        is_behind = (
            decisive.rows[0] is chain if decisive else extreme is None and _exceeds(chain["value"], high)
        )
        chain_text = f"a chain of neighbours with {with_interval(chain, 100, 1)} %"
        if reason := insufficient_data_reason(row):
            verdict = f"against {chain_text} ({reason})"
        elif is_ahead or is_behind:
            verdict = f"{'more' if is_ahead else 'less'} than {chain_text}"
        else:
            reach = detectable_from_score(row) if extreme is None else extreme.detectable
            verdict = f"{NO_DIFFERENCE} from {chain_text}{bracket(SHARE.detectable(reach))}"
        yield (
            f"{start_sentence(run, row)}layer {row['layer']}, chosen on validation, holds "
            f"{with_interval(row, 100, 1)} % of the tree's links, {verdict}."
        )


def _exceeds(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value > threshold


plot = SectionPlot(
    title="Structure: syntax trees in the states",
    lens=LENS,
    order=250,
    caption=(
        "A projection of the states is trained so that squared distances between code tokens match "
        "distances in the syntax tree (Hewitt and Manning 2019). Shown are test functions. Links found: "
        "edges that the spanning tree of the predicted distances shares with a minimum spanning tree of "
        "the tree distances; the ceiling is what the tree distances themselves reach. The neighbours "
        "baseline links each token to the next one, and takes its index as its depth."
    ),
    select=lambda run: run.scores(metrics=list(_MEASURES), lens=LENS, task=TASK, controls=True),
    figure=_draw,
)
