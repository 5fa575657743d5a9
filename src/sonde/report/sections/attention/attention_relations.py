"""Each relation's best head beside offset, keyword and the better of both (CodeSyntax, tables 6, 9 to 12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import join_names
from sonde.report.charts import plot_estimates, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import HITS, LENS, MODEL, RELATION, format_head, read_gains, read_hits
from sonde.report.text import to_chart_record
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import PERCENT, PERCENT_WITH_INTERVAL, SHARE, TOO_LITTLE, with_interval
from sonde.stats.verdict import allows_verdict, no_verdict_reason

_CHART_METRIC = "first_hit"


_LISTED_RELATIONS = 3
"""Relations that a sentence names."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each subject."""
    all_gains = read_gains(run, "combined", by=RELATION)
    all_gains = all_gains if all_gains.height else read_gains(run, "offset", by=RELATION)
    gains = all_gains.filter(pl.col("k") == 1)
    records = _build_records(rows, gains)
    return Figure(
        answer="\n".join(_list_answers(gains.filter(pl.col("metric") == _CHART_METRIC))),
        charts=[
            Chart(
                name=f"attention-relations{suffix}",
                title=f"Found at once, {subject}",
                spec=_build_spec(
                    [row for row in records if (row["subject"], row["metric"]) == (subject, _CHART_METRIC)]
                ),
                wide=True,
            )
            for subject, suffix, _ in split_by_subject(rows)
        ],
        table=Table(
            summary="Every relation, in %",
            columns=[
                Column(title="Relation", value="label", help="The relation between two words in the syntax."),
                Column(title="Of", value="subject"),
                Column(title="Found", value=lambda row: HITS[row["metric"]], help="When an edge counts."),
                Column(
                    title="Best head", format=PERCENT_WITH_INTERVAL, help="The head that finds most edges."
                ),
                Column(
                    title="Layer.head", value=format_head, order="layer",
                    help="Which head that is, counted from 0.",
                ),
                *(
                    Column(
                        title=title,
                        value=lambda row, name=name: row["by"].get(name),
                        format=PERCENT,
                        help=help_text,
                    )
                    if name in _BASELINES
                    else Column(
                        title=title,
                        value=lambda row, name=name: (
                            row["by"].get(name.removesuffix(".chosen"), {}).get("chosen") or None
                        ),
                        help=help_text,
                    )
                    for name, title, help_text in _BASELINE_COLUMNS
                ),
                Column(
                    title="Difference",
                    value="difference",
                    format=PERCENT_WITH_INTERVAL,
                    help="The best head minus the better of both, in points.",
                ),
                Column(
                    title="Random weights",
                    value=lambda row: row["by"].get("random_weights"),
                    format=PERCENT,
                    help="The best head of the model with random weights.",
                ),
                *size_columns("Edges"),
            ],
            rows=records,
        ),
    )  # fmt: skip


_BASELINES = ("offset", "keyword", "combined")


_BASELINE_COLUMNS = (
    ("offset", "Offset", "The other end is guessed at a fixed distance."),
    ("offset.chosen", "At", "The distance that finds most."),
    ("keyword", "Keyword", "The other end is guessed to be the nearest of a certain word."),
    ("keyword.chosen", "Which", "The word that finds most."),
    ("combined", "Better of both", "The better of offset and keyword."),
)
"""Columns of the baselines and of what was chosen for them."""


def _build_records(rows: pl.DataFrame, gains: pl.DataFrame) -> list[dict[str, Any]]:
    """Combine each relation's best head with its baselines and the difference to the better one."""
    keys = ("label", "subject", "metric")
    gains_by_key = {tuple(row[key] for key in keys): row for row in gains.iter_rows(named=True)}
    hits = rows.filter(pl.col("metric").is_in(["first_hit", "any_hit"]))
    hits_by_key = {
        key: {row["predictor"]: row for row in part.iter_rows(named=True)}
        for key, part in hits.partition_by(keys, as_dict=True, maintain_order=True).items()
    }
    return [
        {**by_predictor[MODEL], "by": by_predictor, "difference": gains_by_key.get(key)}
        for key, by_predictor in hits_by_key.items()
        if MODEL in by_predictor
    ]


def _build_spec(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    records = [
        {
            "relation": row["label"],
            "subject": row["subject"],
            **to_chart_record(row),
            "head": format_head(row),
            "baseline": baseline and baseline["value"],
        }
        for row in sorted(rows, key=lambda row: -row["value"])
        for baseline in (row["by"].get("combined") or row["by"].get("offset"),)
    ]
    return plot_estimates(
        records,
        "relation",
        "edges found",
        [
            alt.Tooltip("relation:N", title=" "),
            alt.Tooltip("reading:N", title="best head, %"),
            alt.Tooltip("head:N", title="layer.head"),
            alt.Tooltip("baseline:Q", format=".1%"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
        order=[record["relation"] for record in records],
        by="subject",
        joint="baseline",
        marks={"baseline": "surface"},
    )


def _list_answers(gains: pl.DataFrame) -> Iterator[str]:
    for subject, _, part in split_by_subject(gains):
        conclusive = [row for row in part.iter_rows(named=True) if allows_verdict(row)]
        gain_labels = sorted(row["label"] for row in conclusive if row["ci_low"] > 0)
        loss_labels = sorted(row["label"] for row in conclusive if row["ci_high"] < 0)
        relations = f"{part.height} relation{'s' * (part.height != 1)}"
        if not conclusive:
            reason = no_verdict_reason(part.row(0, named=True))
            first = part.head(_LISTED_RELATIONS).to_dicts()
            values = join_names([f"{row['label']} {with_interval(row, 100, 1)}" for row in first])
            yield (
                f"{subject}: {TOO_LITTLE} on whether the best head is ahead of the baselines in any of "
                f"{relations} ({reason}): {values} points{', …' * (part.height > _LISTED_RELATIONS)}."
            )
            continue
        level = [row for row in conclusive if row["ci_low"] <= 0 <= row["ci_high"]]
        rest = SHARE.null_results(level)
        rest += (
            [f"{TOO_LITTLE} in {inconclusive_count}"]
            if (inconclusive_count := part.height - len(conclusive))
            else []
        )
        yield (
            f"{subject}: of {relations}, the best head is ahead of the baselines in "
            f"{_format_names(gain_labels)} and behind in {_format_names(loss_labels)}"
            f"{''.join(f'; {clause}' for clause in rest)}."
        )


def _format_names(names: Sequence[str]) -> str:
    """Format the number of relations and the first of their names."""
    first = f"{', '.join(names[:_LISTED_RELATIONS])}{', …' * (len(names) > _LISTED_RELATIONS)}"
    return f"{len(names)} ({first})" if names else "0"


plot = SectionPlot(
    title="Attention: relation by relation",
    lens=LENS,
    order=310,
    caption=(
        "Share of edges found at once (k = 1, first word of the dependent). The dot is the best head of the "
        "relation, the diamond the better of the offset and the keyword baseline; each was chosen on "
        "validation. Hollow dots allow no verdict: too few clusters or too wide an interval. The table has "
        "first and any word, the head as layer and place counted from 0, and the offset and keyword that "
        "were chosen. Random weights lie near chance, one in the number of words, or below it: without "
        "training a head attends to all subwords alike, so a word gets as much as it has subwords, and the "
        "longest word ranks first."
    ),
    select=lambda run: read_hits(run, by=RELATION).filter(pl.col("k") == 1),
    figure=_draw,
)
