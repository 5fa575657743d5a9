"""Attention that heads pay to the first token and to separators, which hold no code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import count
from sonde.report.charts import plot_heat_map, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import HEAD_COLUMNS, LENS, add_subject, find_best_heads
from sonde.report.text import lacks_verdict
from sonde.results.extremes import split_by_threshold
from sonde.results.tables import Column, Table, score_columns
from sonde.results.text_format import SHARE, TOO_LITTLE, with_interval

_SINKS = {"sink_first": "first token", "sink_separator": "separators"}


_THRESHOLD = 0.5


_ENDS = ("value", "ci_low", "ci_high")


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a map for each subject and kind of sink."""
    parts = rows.partition_by("subject", "metric", as_dict=True, maintain_order=True)
    return Figure(
        answer="\n".join(_list_sentences(run, rows)),
        charts=[
            Chart(
                name=f"attention-sinks-{index}",
                title=f"Attention to the {_SINKS[str(metric)]}, {subject}",
                spec=_build_spec(part),
            )
            for index, ((subject, metric), part) in enumerate(parts.items())
        ],
        table=Table(
            summary="Every head, in % of its attention",
            columns=[
                Column(title="Of", value="subject"),
                Column(title="To the", value=lambda row: _SINKS[row["metric"]]),
                *HEAD_COLUMNS,
                *score_columns("Attention, %", digits=1, scale=100, n="Functions"),
            ],
            rows=rows.sort("value", descending=True, maintain_order=True),
        ),
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    return plot_heat_map(
        [
            {
                **{name: row[name] for name in ("layer", "head", "value", "n")},
                "reading": with_interval(row, 100, 1),
            }
            for row in rows.iter_rows(named=True)
        ],
        alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        alt.Y("layer:O", title="layer", sort="descending"),
        {"layer:O": "", "head:O": "", "reading:N": "attention, %", "n:Q": "functions|,"},
        legend="attention",
        step=22,
    )


def _list_sentences(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence a subject: mean attention to sinks, and the heads that pay more than half to them."""
    best_heads = find_best_heads(run)
    for subject, _, part in split_by_subject(rows):
        means = [
            f"{with_interval(_average_heads(metric_rows), 100, 1)} % to the {_SINKS[str(metric)]}"
            for (metric,), metric_rows in part.partition_by(
                "metric", as_dict=True, maintain_order=True
            ).items()
        ]
        heads = _sum_by_head(part)
        heads_above, heads_below, unclear = split_by_threshold(heads, _THRESHOLD)
        best = sum((head["layer"], head["head"]) in best_heads.get(subject, {}) for head in heads_above)
        tail = f" ({count(best)} of them {'is' if best == 1 else 'are'} the chosen head of a relation)"
        inconclusive = [head for head in unclear if lacks_verdict(head)]
        level = [head for head in unclear if not lacks_verdict(head)]
        rest = SHARE.null_results(level, len(heads))
        rest += [f"{TOO_LITTLE} in {count(len(inconclusive))}"] if inconclusive else []
        yield (
            f"{subject}: heads pay {' and '.join(means)} on average; {count(len(heads_above))} of "
            f"{count(len(heads))} surely pay{'s' * (len(heads_above) == 1)} more than half there"
            f"{tail if heads_above else ''}, {count(len(heads_below))} surely less"
            f"{''.join(f'; {clause}' for clause in rest)}."
        )


def _average_heads(rows: pl.DataFrame) -> dict[str, float | None]:
    """Average over heads. Ends are means of ends, which hold however the heads correlate."""
    has_interval = pl.all_horizontal(pl.col(_ENDS).is_not_null().all())
    value, *ends = (pl.col(name).mean() for name in _ENDS)
    return rows.select(value, *(pl.when(has_interval).then(end) for end in ends)).row(0, named=True)


def _sum_by_head(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Sum what each head pays in all. Ends are sums of ends, which hold however the parts correlate."""
    first = [name for name in rows.columns if name not in ("layer", "head", *_ENDS)]
    has_interval = pl.all_horizontal(pl.col(_ENDS).is_not_null().all())
    return (
        rows.group_by("layer", "head", maintain_order=True)
        .agg(pl.when(has_interval).then(pl.col(_ENDS).sum()), pl.col(first).first())
        .to_dicts()
    )


plot = SectionPlot(
    title="Attention: where heads rest",
    lens=LENS,
    order=327,
    caption=(
        "Share of a head's attention on the first token that the model reads (the special token before the "
        "text, else the first of the text), and on the special tokens after the text. It is averaged over "
        "functions, for the words that relations are asked about. Attention adds up to one, so a head that "
        "finds nothing may put it there: such a head is at rest and follows no relation. In a decoder, "
        "words near the beginning of a text see few others, which raises the share of the first token."
    ),
    select=lambda run: add_subject(run.scores(metrics=list(_SINKS), lens=LENS), run),
    figure=_draw,
)
