"""Each relation's best head, and offset, keyword and the better of both (CodeSyntax, tables 6, 9 to 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import bracket, plural
from sonde.report.charts import plot_by_subject, plot_estimates, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.attention import (
    HITS,
    LENS,
    MODEL,
    RELATION,
    RELATION_COLUMN,
    format_head,
    read_gains,
    read_hits,
)
from sonde.report.text import list_first, sort_differences, to_chart_record
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import (
    PERCENT,
    PERCENT_WITH_INTERVAL,
    TOO_LITTLE,
    Row,
    with_interval,
)

_CHART_METRIC = "first_hit"


_LISTED_RELATIONS = 3
"""Relations that a sentence names."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each subject."""
    gains = read_gains(run, by=RELATION)
    records = _build_records(rows, gains)
    chart_records = [row for row in records if row["metric"] == _CHART_METRIC]
    return Figure(
        answer="\n".join(_list_answers(gains.filter(pl.col("metric") == _CHART_METRIC))),
        charts=plot_by_subject(
            rows,
            "attention-relations",
            "Found at once",
            lambda part: _build_spec([row for row in chart_records if row["subject"] == part["subject"][0]]),
            wide=True,
        ),
        table=Table(
            summary="Every relation, in %",
            columns=[
                RELATION_COLUMN,
                Column(title="Of", value="subject"),
                Column(title="Found", value=lambda row: HITS[row["metric"]], help="When an edge counts."),
                Column(
                    title="Best head, %", format=PERCENT_WITH_INTERVAL, help="The head that finds most edges."
                ),
                Column(
                    title="Layer.head", value=format_head, order="layer",
                    help="Which head that is, counted from 0.",
                ),
                _build_baseline_column(
                    "Offset, %", "offset", "The other end is guessed at a fixed distance."
                ),
                Column(title="At", value=_get_choice("offset"), help="The distance that finds most."),
                _build_baseline_column(
                    "Keyword, %", "keyword", "The other end is guessed to be the nearest of a certain word."
                ),
                Column(title="Which", value=_get_choice("keyword"), help="The word that finds most."),
                _build_baseline_column("Better of both, %", "combined", "The better of offset and keyword."),
                Column(
                    title="Difference, points",
                    value="difference",
                    format=PERCENT_WITH_INTERVAL,
                    help="The best head minus the better of both, in points.",
                ),
                Column(
                    title="Random weights, %",
                    value=lambda row: row["by"].get("random_weights"),
                    format=PERCENT,
                    help="The best head of the model with random weights.",
                ),
                *size_columns("Edges"),
            ],
            rows=records,
        ),
    )  # fmt: skip


def _build_baseline_column(title: str, baseline: str, help: str) -> Column:
    return Column(title=title, value=lambda row: row["by"].get(baseline), format=PERCENT, help=help)


def _get_choice(baseline: str) -> Callable[[Row], Any]:
    """Return the function of a row that gives what was chosen for a baseline."""
    return lambda row: row["by"].get(baseline, {}).get("chosen") or None


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
        {
            "relation:N": " ",
            "reading:N": "best head, %",
            "head:N": "layer.head",
            "baseline:Q": "|.1%",
            "n:Q": "edges|,",
        },
        order=[record["relation"] for record in records],
        by="subject",
        joint="baseline",
        marks={"baseline": "surface"},
    )


def _list_answers(gains: pl.DataFrame) -> Iterator[str]:
    for subject, _, part in split_by_subject(gains):
        differences = sort_differences(part.iter_rows(named=True))
        relations = plural(part.height, "relation")
        if differences.is_open:
            values = [f"{row['label']} {with_interval(row, 100, 1)}" for row in differences.rows]
            yield (
                f"{subject}: {TOO_LITTLE} on whether the best head is ahead of the baselines in any of "
                f"{relations} ({differences.reasons}): {list_first(values, _LISTED_RELATIONS)} points."
            )
            continue
        sentence = (
            f"{subject}: of {relations}, the best head is ahead of the baselines in "
            f"{_format_labels(differences.higher)} and behind in {_format_labels(differences.lower)}"
        )
        yield f"{'; '.join([sentence, *differences.describe_rest()])}."


def _format_labels(rows: Sequence[Row]) -> str:
    """Format the number of relations and the first of their names."""
    labels = sorted(row["label"] for row in rows)
    return f"{len(labels)}{bracket(list_first(labels, _LISTED_RELATIONS))}"


plot = SectionPlot(
    title="Attention: relation by relation",
    lens=LENS,
    order=310,
    caption=(
        "Share of edges found at once (k = 1, first word of the dependent). The dot is the best head of "
        "the relation, the diamond the better of the offset and the keyword baseline; validation chose "
        "each. Hollow dots allow no verdict: too few clusters, or too wide an interval. The table also has "
        "any word of the dependent, the head as layer and index counted from 0, and the chosen offset and "
        "keyword. Random weights lie near chance (one divided by the number of words) or below it. An "
        "untrained head attends to all subwords alike, so a word gets as much attention as it has "
        "subwords, and the longest word ranks first."
    ),
    select=lambda run: read_hits(run, by=RELATION).filter(pl.col("k") == 1),
    figure=_draw,
)
