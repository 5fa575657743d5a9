"""Heads against baselines, averaged over relations (CodeSyntax, tables 3 to 5 and figure 2)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import count
from sonde.report.charts import colour_by_meaning, row_height, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.attention import (
    AVERAGE,
    EDGES,
    HITS,
    LENS,
    MEANT,
    MODEL,
    PREDICTORS,
    RELATION,
    SHOWN_K,
    add_subject,
    describe_sides,
    read_gains,
    read_hits,
)
from sonde.report.text import to_chart_record
from sonde.results.schema import dimension_value
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import PERCENT, Interval, difference_caveat, with_interval


class AttentionSummary:
    """The mean over relations at k = 1, and all k of the paper's tables."""

    title = "Attention: do heads follow syntax?"
    lens = LENS
    order = 300
    caption = (
        "Share of edges whose dependent is among the k words that the head word attends to most, in the best "
        "head of each relation, averaged over relations with equal weight, with 95 % intervals over clusters "
        "of functions. First, last and any word are the words of the dependent that count as found. The "
        "offset baseline always predicts the word at a fixed distance, the keyword baseline the next "
        "occurrence of a fixed keyword; neither reads the code. Heads and baselines are chosen on "
        "validation. One head for all relations is the one that finds most edges in all; the longest word "
        "and chance pick among the words that heads are ranked over. In the table also every edge with equal "
        "weight."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Dots by predictor for the first and for any word."""
        rows = read_hits(run, AVERAGE)
        if rows.is_empty():
            return None
        first = rows.filter(pl.col("k") == 1)
        charts = [
            Chart(
                name=f"attention-{metric.removesuffix('_hit')}",
                title=f"Found at once, {HITS[metric]} of the dependent",
                spec=_build_spec(first.filter(pl.col("metric") == metric)),
            )
            for metric in ("first_hit", "any_hit")
        ]
        return Figure(
            lead=_format_sentences(run, ["first_hit"], beside=False),
            answer=_format_sentences(run, ["first_hit", "any_hit"], beside=True),
            charts=charts,
            table=_build_table(pl.concat([rows, read_hits(run, EDGES)], how="diagonal_relaxed")),
            notes=[*_list_notes(run), *describe_sides(rows)],
        )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "predictor": PREDICTORS[row["predictor"]],
            "subject": row["subject"],
            **to_chart_record(row),
        }
        for row in rows.iter_rows(named=True)
    ]
    several = rows["subject"].n_unique() > 1
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("predictor:N", sort=list(PREDICTORS.values()), title=None),
        tooltip=[
            alt.Tooltip("predictor:N", title=" "),
            alt.Tooltip("subject:N", title="of"),
            alt.Tooltip("reading:N", title="% found"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
    )
    if several:
        base = base.encode(
            color=alt.Color("subject:N", title=None, sort=None), yOffset=alt.YOffset("subject:N", sort=None)
        )
    else:
        base = base.encode(
            color=colour_by_meaning("predictor", MEANT, list(PREDICTORS.values()), legend=False)
        )
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("value:Q", title="edges found", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        base.mark_rule(style="spread", clip=True).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    lines = rows["subject"].n_unique()
    return to_vega_lite(alt.layer(*layers).properties(height=row_height(lines)))


def _format_sentences(run: RunData, metrics: list[str], *, beside: bool) -> str:
    """One line a subject and metric: the best heads, the best baseline, and their difference.

    Args:
        run: The run.
        metrics: Which hits.
        beside: Whether one head for all relations, chance and the share of all edges stand beside them.
    """
    rows, ahead = read_hits(run, AVERAGE), read_gains(run, "combined", AVERAGE)
    if ahead.is_empty():
        ahead = read_gains(run, "offset", AVERAGE)
    said: list[str] = []
    for row in ahead.filter((pl.col("k") == 1) & pl.col("metric").is_in(metrics)).iter_rows(named=True):
        same = (
            (pl.col("subject") == row["subject"]) & (pl.col("metric") == row["metric"]) & (pl.col("k") == 1)
        )
        own = next(rows.filter(same & (pl.col("predictor") == MODEL)).iter_rows(named=True), None)
        over = row["compared_to"]
        other = next(rows.filter(same & (pl.col("predictor") == over)).iter_rows(named=True), None)
        if own is None or other is None:
            continue
        said.append(
            f"{row['subject']}, {HITS[row['metric']]}: the best heads find {with_interval(own, 100, 1)} % "
            f"of the edges, {PREDICTORS[over]} {with_interval(other, 100, 1)} % (difference "
            f"{with_interval(row, 100, 1)} points{difference_caveat(row, 100, 1, ' points')})."
            f"{_describe_alternatives(run, row, rows.filter(same)) if beside else ''}"
        )
    return "\n".join(said)


def _describe_alternatives(run: RunData, row: dict[str, Any], same: pl.DataFrame) -> str:
    """What one head for all relations finds, what chance would, and the share of all edges."""
    found = {one["predictor"]: one for one in same.iter_rows(named=True)}
    said = [
        f"{PREDICTORS[name]} {with_interval(found[name], 100, 1)} %"
        for name in ("one_head", "longest", "chance")
        if name in found
    ]
    pooled = read_hits(run, EDGES).filter(
        (pl.col("subject") == row["subject"])
        & (pl.col("metric") == row["metric"])
        & (pl.col("k") == 1)
        & (pl.col("predictor") == MODEL)
    )
    words = f" Beside them: {', '.join(said)}." if said else ""
    for one in pooled.iter_rows(named=True):
        words += f" Over all edges with equal weight the best heads find {with_interval(one, 100, 1)} %."
    return words


def _build_table(rows: pl.DataFrame) -> Table:
    keys = ["subject", "average", "metric", "predictor"]
    rows = rows.with_columns(average=dimension_value("average").fill_null("relations"))
    records: list[dict[str, Any]] = []
    for part in rows.partition_by(keys, maintain_order=True):
        by_k = {row["k"]: row for row in part.iter_rows(named=True)}
        records.append({**part.row(0, named=True), "by_k": by_k})
    return Table(
        summary="All predictors, in % of edges",
        columns=[
            Column(title="Of", value="subject"),
            Column(title="Predictor", value=lambda row: PREDICTORS[row["predictor"]]),
            Column(title="Found", value=lambda row: HITS[row["metric"]], help="When an edge counts."),
            Column(title="Mean over", value="average", help="What has the same weight in the mean."),
            *(
                Column(
                    title=f"k = {k}",
                    value=lambda row, k=k: row["by_k"].get(k),
                    format=PERCENT,
                    help=f"The other end is among the {k} words attended to most.",
                )
                for k in SHOWN_K
            ),
            Column(title="95 % at k = 1", format=Interval(digits=1, scale=100), help="The 95 % interval."),
            *size_columns("Edges"),
        ],
        rows=records,
    )


def _list_notes(run: RunData) -> list[str]:
    """How many items were read and dropped, and which relations could not be scored."""
    items = add_subject(run.scores(metrics=["items"], lens=LENS), run)
    items = items.with_columns(dropped=dimension_value("dropped"))
    notes: list[str] = []
    for (subject,), part in items.partition_by("subject", as_dict=True, maintain_order=True).items():
        read = float(part.filter(pl.col("dropped").is_null())["value"].sum())
        dropped = [
            f"{count(row['value'])} dropped ({row['dropped']})"
            for row in part.filter(pl.col("dropped").is_not_null()).iter_rows(named=True)
        ]
        notes.append(f"{subject}: {', '.join([f'{count(read)} functions read', *dropped])}.")
    edges = run.scores(metrics=["edges"], lens=LENS, by=RELATION)
    empty = edges.filter(pl.col("value") == 0)
    for (language, split), part in empty.partition_by(
        ["language", "split"], as_dict=True, maintain_order=True
    ).items():
        names = ", ".join(sorted(part["label"].unique().to_list()))
        notes.append(f"Without an edge in {split} ({language}), so not scored: {names}.")
    return notes


plot = AttentionSummary()
