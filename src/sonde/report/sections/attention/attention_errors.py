"""Errors of the best heads: what they pick if they miss, by kind of word (CodeSyntax, table 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import colour_by_kind, list_tooltips, split_by_subject, to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.attention import LENS, RELATION, RELATION_COLUMN, SNIPPET, STAGE, add_subject
from sonde.report.text import collapse_blanks, describe_highest
from sonde.results.schema import dimension_value
from sonde.results.tables import Column, Table
from sonde.results.text_format import Count, WithInterval, with_interval

_EXAMPLES = 2


_MIN_MISSES = 10


_CONTEXT = 30


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each subject and each way of grouping the misses."""
    chart_rows = rows.filter(pl.col("n") >= _MIN_MISSES)
    return Figure(
        answer="\n".join(_list_answers(chart_rows)),
        charts=[
            Chart(
                name=f"attention-errors-{way}-{index}",
                title=f"Misses by {name}, {subject}",
                spec=_build_spec(part.filter(pl.col("way") == way), name),
                wide=True,
            )
            for index, (subject, _, part) in enumerate(split_by_subject(chart_rows))
            for way, name in (("situation", "situation"), ("kind", "kind of word"))
        ],
        table=_build_table(rows, run),
        notes=[f"Relations with fewer than {_MIN_MISSES} misses are in the table only."],
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    kind, situation = dimension_value("kind"), dimension_value("situation")
    return add_subject(run.scores(metrics=["picked"], lens=LENS), run).with_columns(
        label=dimension_value(RELATION),
        way=pl.when(kind.is_not_null()).then(pl.lit("kind")).otherwise(pl.lit("situation")),
        what=pl.coalesce(kind, situation),
    )


def _build_spec(rows: pl.DataFrame, name: str) -> dict[str, Any]:
    bars = alt.Chart(alt.Data(values=rows.select("what", "value", "n", relation="label").to_dicts())).encode(
        y=alt.Y("relation:N", title=None),
        x=alt.X(
            "value:Q",
            title="share of misses",
            stack="zero",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=colour_by_kind("what", name),
        tooltip=list_tooltips(
            {"relation:N": " ", "what:N": "picked", "value:Q": "share of misses|.1%", "n:Q": "misses|,"}
        ),
    )
    return to_vega_lite(bars.mark_bar().properties(height=alt.Step(18)))


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence a subject: the kind of word that the best heads pick most often when they miss."""
    for subject, _, part in split_by_subject(rows.filter(pl.col("way") == "kind")):
        misses = int(part.unique("label")["n"].sum())
        clause = describe_highest(
            _pool_misses(part, misses),
            "kinds of word",
            lambda row: str(row["what"]),
            lambda row: f"{with_interval(row, 100, 1)} %",
            verb="is picked most often",
            topic="which kind of word is picked most often",
            are_shares=True,
        )
        yield f"{subject}: over {plural(misses, 'miss', 'misses')} of the best heads, {clause}."


def _pool_misses(rows: pl.DataFrame, misses: int) -> list[dict[str, Any]]:
    """Return shares over all misses. Ends are sums of ends, which hold however relations correlate."""
    share = pl.col("n") / misses
    groups = rows.sort("n", descending=True, maintain_order=True).group_by("what", maintain_order=True)
    return groups.agg(
        (pl.col("value") * share).sum(),
        # A share that has no interval may be anything, and where none has one nothing is known.
        pl.when(pl.col("ci_low").is_not_null().any()).then((pl.col("ci_low").fill_null(0.0) * share).sum()),
        pl.when(pl.col("ci_high").is_not_null().any()).then((pl.col("ci_high").fill_null(1.0) * share).sum()),
        pl.col("n").sum(),
        pl.when(pl.col("n_eff").is_not_null().all()).then(pl.col("n_eff").sum()),
        pl.col("effective_clusters", "n_clusters", "df", "seeds", "ci_method").first(),
    ).to_dicts()


def _build_table(rows: pl.DataFrame, run: RunData) -> Table:
    shares = rows.sort("label", "subject", "value", descending=[False, False, True]).to_dicts()
    return Table(
        summary="Shares of misses, and examples",
        columns=[
            RELATION_COLUMN,
            Column(title="Of", value="subject"),
            Column(title="Picked", value="what", help="The word that the head attends to most instead."),
            Column(
                title="Share of misses, %", format=WithInterval(digits=1, scale=100, missing=""),
                help="Share of the missed edges that go to this word.",
            ),
            Column(title="Misses", value="n", format=Count(missing="")),
        ],
        rows=[*shares, *(example for model in run.models for example in _list_examples(run, model))],
    )  # fmt: skip


def _list_examples(run: RunData, model: ModelInfo) -> list[dict[str, Any]]:
    """List a few misses of each relation, each as the line around the word that is asked."""
    table = run.table(STAGE, model)
    if table is None:
        return []
    misses = (
        table.filter(~pl.col("hit") & ~pl.col("item_id").str.ends_with(SNIPPET))
        .sort("item_id", "asked_start")
        .group_by("side", "relation", maintain_order=True)
        .head(_EXAMPLES)
        .collect()
    )
    texts = dict(run.items(misses["item_id"].unique().to_list()).select("item_id", "text").iter_rows())
    return [
        {
            "label": row["relation"],
            "subject": f"{model.label}, {row['side']}" if misses["side"].n_unique() > 1 else model.label,
            "what": _format_example(row, texts.get(row["item_id"], "")),
            "value": None,
            "n": None,
        }
        for row in misses.sort("relation").iter_rows(named=True)
    ]


def _format_example(row: dict[str, Any], text: str) -> str:
    start = row["asked_start"]
    line = text[max(0, start - _CONTEXT) : start + 2 * _CONTEXT].replace("\n", "↵")
    asked_word, expected_word, picked_word = (
        collapse_blanks(row[name].replace("\n", "↵").replace(" ", "␣"))[:_CONTEXT]
        for name in ("asked", "expected", "picked")
    )
    return (
        f"“{asked_word}” in “{line}”: looked for “{expected_word}”, picked “{picked_word}” "
        f"({row['situation']})"
    )


plot = SectionPlot(
    title="Attention: what heads pick instead",
    lens=LENS,
    order=350,
    caption=(
        "Edges that the best head of a relation misses at k = 1 (first word of the dependent), by what the "
        "head picks instead. They are counted in a second pass over a sample of the functions. The table "
        "has each share with its interval, and example misses in their line of code: the word asked about, "
        "the word looked for and the word picked."
    ),
    select=_read_rows,
    figure=_draw,
)
