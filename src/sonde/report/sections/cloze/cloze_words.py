"""Words preferred where a published test leaves one out and keeps the answers to itself."""

from __future__ import annotations

import polars as pl

from sonde.report.charts import TEMPLATE
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.cloze import LENS
from sonde.report.text import describe_highest
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import Column, Table, score_columns
from sonde.results.text_format import PERCENT, with_interval

_JOIN_COLUMNS = ("model", "corpus_hash", "label")


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Build the table of every word."""
    corpora = {entry["hash"]: entry["name"] for entry in run.summary.get("corpus") or ()}
    return Figure(
        lead=_format_lead(rows),
        table=Table(
            summary="Every word",
            columns=[
                Column(title="Of", value="subject"),
                Column(title="Corpus", value=lambda row: str(corpora.get(row["corpus_hash"], ""))),
                Column(title="Word", value="label", help="The word that was asked for."),
                Column(
                    title="At random, %",
                    value="at_random",
                    format=PERCENT,
                    help="The share that guessing among the words would reach.",
                ),
                *score_columns(
                    "Preferred, %",
                    1,
                    100,
                    n="Queries",
                    clusters="Entries",
                    help="It is the likeliest of the words.",
                ),
            ],
            rows=rows.sort("subject", "corpus_hash", pl.col("value"), descending=[False, False, True]),
        ),
        notes=(
            "The likeliest word of every entry lies in predictions/, a folder a model, in the form that the "
            "published evaluator takes (option --predictions).",
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read how often each word is preferred, with the rate that guessing reaches."""
    of_words = has_dimension_names(TEMPLATE, "word")
    rows = run.scores(metrics=["preferred"], where=of_words, lens=LENS, controls=True)
    rows = rows.with_columns(subject=run.subject, label=dimension_value("word"))
    chance = rows.filter(pl.col("control") == "chance").unique(_JOIN_COLUMNS, keep="last")
    model_rows = rows.filter(pl.col("control").is_null())
    return model_rows.join(
        chance.select(*_JOIN_COLUMNS, at_random="value"), on=_JOIN_COLUMNS, how="left", maintain_order="left"
    )


def _format_lead(rows: pl.DataFrame) -> str:
    """Name the word that each model prefers most often, as far as the intervals tell."""
    sentences: list[str] = []
    for part in rows.partition_by("subject", "corpus_hash", maintain_order=True):
        clause = describe_highest(
            part.to_dicts(),
            "words of ClozeTest",
            lambda row: f"“{row['label']}”",
            lambda row: f"{with_interval(row, 100, 1)} %",
            verb="is preferred most often",
            topic="which word of ClozeTest is preferred most often",
            are_shares=True,
        )
        sentences.append(f"{part['subject'][0]}: {clause}.")
    return " ".join(sentences)


plot = SectionPlot(
    title="ClozeTest: words that are preferred",
    lens=LENS,
    order=408,
    caption=(
        "CodeXGLUE's ClozeTest leaves a word out of a function. Its answers are not published, so only how "
        "often each word is found likeliest can be shown."
    ),
    select=_read_rows,
    figure=_draw,
)
