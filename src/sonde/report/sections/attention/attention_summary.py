"""Heads against baselines, averaged over relations (CodeSyntax, tables 3 to 5 and figure 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import count
from sonde.report.charts import (
    colour_by_meaning,
    group_by_k,
    plot_estimates,
    split_by_subject,
)
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import (
    AVERAGE,
    EDGES,
    HITS,
    LEGEND,
    LENS,
    MODEL,
    PREDICTORS,
    RELATION,
    SHOWN_K,
    SIDES,
    add_subject,
    read_gains,
    read_hits,
)
from sonde.report.text import to_chart_record
from sonde.results.schema import dimension_value
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import PERCENT, SHARE, Interval, with_interval


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw dots by predictor for the first and for any word."""
    first = rows.filter(pl.col("k") == 1)
    return Figure(
        lead="\n".join(_list_sentences(run, first, ["first_hit"], with_controls=False)),
        answer="\n".join(_list_sentences(run, first, ["first_hit", "any_hit"], with_controls=True)),
        charts=[
            Chart(
                name=f"attention-{metric.removesuffix('_hit')}",
                title=f"Found at once, {HITS[metric]} of the dependent",
                spec=_build_spec(first.filter(pl.col("metric") == metric)),
            )
            for metric in ("first_hit", "any_hit")
        ],
        table=_build_table(pl.concat([rows, read_hits(run, EDGES)], how="diagonal_relaxed")),
        notes=[*_list_notes(run), *(note for side, note in SIDES.items() if side in set(rows["side"]))],
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {"predictor": PREDICTORS[row["predictor"]], "subject": row["subject"], **to_chart_record(row)}
        for row in rows.iter_rows(named=True)
    ]
    names = list(PREDICTORS.values())
    has_several_subjects = rows["subject"].n_unique() > 1
    return plot_estimates(
        records,
        "predictor",
        "edges found",
        {"predictor:N": " ", "subject:N": "of", "reading:N": "% found", "n:Q": "edges|,"},
        by="subject",
        order=names,
        colour=None if has_several_subjects else colour_by_meaning("predictor", LEGEND, names, legend=False),
        style="spread",
    )


def _list_sentences(
    run: RunData, rows: pl.DataFrame, metrics: Sequence[str], *, with_controls: bool
) -> Iterator[str]:
    """Yield a sentence a subject and metric: the best heads, the best baseline, and their difference.

    Args:
        run: The run.
        rows: Shares of the edges found at the first try.
        metrics: Metrics of hits.
        with_controls: Whether to add one head for all relations, the longest word, chance and the share
            over all edges.
    """
    gains = read_gains(run, AVERAGE).filter(pl.col("metric").is_in(metrics))
    edge_rows = read_hits(run, EDGES).filter((pl.col("k") == 1) & (pl.col("predictor") == MODEL))
    for gain in gains.iter_rows(named=True):
        filters = {name: gain[name] for name in ("subject", "metric")}
        by_predictor = {row["predictor"]: row for row in rows.filter(**filters).iter_rows(named=True)}
        model_row, control_row = by_predictor.get(MODEL), by_predictor.get(gain["compared_to"])
        if model_row is None or control_row is None:
            continue
        sentence = (
            f"{gain['subject']}, {HITS[gain['metric']]}: the best heads find "
            f"{with_interval(model_row, 100, 1)} % of the edges, {PREDICTORS[gain['compared_to']]} "
            f"{with_interval(control_row, 100, 1)} % (difference "
            f"{with_interval(gain, 100, 1)} points{SHARE.difference_caveat(gain)})."
        )
        shares = [
            f"{PREDICTORS[name]} {with_interval(by_predictor[name], 100, 1)} %"
            for name in ("one_head", "longest", "chance")
            if name in by_predictor
        ]
        if with_controls and shares:
            sentence += f" For comparison: {', '.join(shares)}."
        for row in edge_rows.filter(**filters).iter_rows(named=True) if with_controls else ():
            sentence += (
                f" Over all edges with equal weight the best heads find {with_interval(row, 100, 1)} %."
            )
        yield sentence


def _build_table(rows: pl.DataFrame) -> Table:
    keys = ["subject", "average", "metric", "predictor"]
    rows = rows.with_columns(average=dimension_value("average").fill_null("relations"))
    return Table(
        summary="All predictors, in % of edges",
        columns=[
            Column(title="Of", value="subject"),
            Column(title="Predictor", value=lambda row: PREDICTORS[row["predictor"]]),
            Column(title="Found", value=lambda row: HITS[row["metric"]], help="When an edge counts."),
            Column(title="Mean over", value="average", help="Unit of equal weight in the mean."),
            *(
                Column(
                    title=f"k = {k}, %",
                    value=lambda row, k=k: row["by_k"].get(k),
                    format=PERCENT,
                    help=f"The other end is among the {k} words attended to most.",
                )
                for k in SHOWN_K
            ),
            Column(
                title="95 % interval at k = 1",
                format=Interval(digits=1, scale=100),
            ),
            *size_columns("Edges"),
        ],
        rows=group_by_k(rows, keys),
    )


def _list_notes(run: RunData) -> Iterator[str]:
    """Yield how many functions were read and dropped, and which relations could not be scored."""
    items = add_subject(run.scores(metrics=["items"], lens=LENS), run)
    drop_reason = dimension_value("dropped")
    for subject, _, part in split_by_subject(items.with_columns(dropped=drop_reason)):
        read = float(part.filter(pl.col("dropped").is_null())["value"].sum())
        reasons = [
            f"{count(row['value'])} dropped ({row['dropped']})"
            for row in part.filter(pl.col("dropped").is_not_null()).iter_rows(named=True)
        ]
        yield f"{subject}: {', '.join([f'{count(read)} functions read', *reasons])}."
    empty = run.scores(metrics=["edges"], lens=LENS, by=RELATION).filter(pl.col("value") == 0)
    parts = empty.partition_by("language", "split", as_dict=True, maintain_order=True)
    for (language, split), part in parts.items():
        names = ", ".join(sorted(part["label"].unique().to_list()))
        yield f"Without an edge in {split} ({language}), so not scored: {names}."


plot = SectionPlot(
    title="Attention: do heads follow syntax?",
    lens=LENS,
    order=300,
    caption=(
        "Share of edges whose dependent is among the k words that the head word attends to most, for the "
        "best head of each relation. Relations have equal weight; 95 % intervals are over clusters of "
        "functions. First, last and any word are the words of the dependent that count as found. The "
        "offset baseline always predicts the word at a fixed distance, the keyword baseline the next "
        "occurrence of a fixed keyword; neither reads the code. Heads and baselines are chosen on "
        "validation. One head for all relations is the one that finds most edges overall. The longest word "
        "and chance pick among the words that heads are ranked over. The table also has averages with "
        "equal weight for every edge."
    ),
    select=lambda run: read_hits(run, AVERAGE),
    figure=_draw,
)
