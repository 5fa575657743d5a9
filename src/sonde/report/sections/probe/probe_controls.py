"""Accuracy of probes above the controls: surface features, random weights and length."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.report.charts import plot_differences, plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import LENS, read_with_controls
from sonde.report.text import describe_highest, family_order
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import CONTROL, LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import Format, Row, verdict_mark, with_interval

_CORRELATIONS = ("spearman", "spearman without length")


_KINDS = {
    "gain": ("gain over the best surface baseline", "probe-gain"),
    "random": ("gain over random weights", "probe-random"),
    "selectivity": ("selectivity against a control task", "probe-selectivity"),
    _CORRELATIONS[0]: ("rank correlation with the number itself", "probe-numbers"),
    _CORRELATIONS[1]: ("rank correlation, length partialled out", "probe-numbers-without-length"),
}
"""Titles and chart names by kind of comparison."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one chart per kind of comparison."""
    rows = rows.with_columns(subject=run.subject).sort(family_order(rows), "kind", maintain_order=True)
    charts: list[Chart] = []
    for kind, (title, name) in _KINDS.items():
        part = rows.filter(pl.col("kind") == kind).with_columns(shown="subject")
        order = part["name"].unique(maintain_order=True).to_list()
        spec = (
            plot_dots(part, order, "Spearman's rank correlation", "examples")
            if kind in _CORRELATIONS
            else plot_differences(part, order, "points of accuracy", "examples", 100)
        )
        charts += [Chart(name=name, title=f"{title[:1].upper()}{title[1:]}", spec=spec)] if order else []
    return Figure(
        answer="\n".join(_list_answers(rows)),
        charts=charts,
        table=Table(
            summary="Every control",
            columns=[
                Column(title="Task", value="name"),
                MODEL,
                LANGUAGE,
                Column(title="Measure", value=_format_measure),
                dataclasses.replace(CONTROL, title="Against", format=Format(missing="")),
                *score_columns(
                    "Value",
                    lambda row: 2 if row["kind"] in _CORRELATIONS else 1,
                    lambda row: 1 if row["kind"] in _CORRELATIONS else 100,
                    n="Examples",
                ),
            ],
            rows=rows,
        ),
    )


def _format_measure(row: Row) -> str:
    return f"{_KINDS[row['kind']][0]}{'' if row['kind'] in _CORRELATIONS else ', points'}"


def _read_rows(run: RunData) -> pl.DataFrame:
    best = read_with_controls(
        run, ["gain", "selectivity", "spearman"], dimension_value("selection") == "best"
    )
    kind = (
        pl.when((pl.col("metric") == "gain") & (pl.col("control") == "random_weights"))
        .then(pl.lit("random"))
        .when(has_dimension_names("selection", "length"))
        .then(pl.lit("spearman without length"))
        .otherwise(pl.col("metric"))
    )
    return best.with_columns(kind=kind)


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence per subject on the task whose correlation falls most without length."""
    plain, partial = (rows.filter(pl.col("kind") == kind) for kind in _CORRELATIONS)
    pairs = plain.join(partial.select(*_SUBJECT, *_ENDS), on=_SUBJECT, suffix="_rest", maintain_order="left")
    for (subject,), part in pairs.partition_by("subject", as_dict=True, maintain_order=True).items():
        losses = [_compute_length_effect(row) for row in part.iter_rows(named=True)]
        sentence = f"the rank correlation of {part['name'][0]} is {_format_correlations(losses[0])}"
        sentence += verdict_mark(losses[0])
        if len(losses) > 1:
            sentence = describe_highest(
                losses,
                "rank correlations",
                lambda row: row["name"],
                _format_correlations,
                verb="loses most without length",
                topic="which rank correlation loses most without length",
            )
        yield f"{subject}: {sentence}."


_SUBJECT = ("model", "task", "language")


_ENDS = ("value", "ci_low", "ci_high")


def _compute_length_effect(row: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the drop of a correlation without length, with the interval of a difference of two numbers."""
    rest = {end: row[f"{end}_rest"] for end in _ENDS}
    ends = [row[end] for end in _ENDS[1:]] + [rest[end] for end in _ENDS[1:]]
    value = row["value"] - rest["value"]
    low = high = None
    if None not in ends:
        low = value - math.hypot(row["value"] - row["ci_low"], rest["ci_high"] - rest["value"])
        high = value + math.hypot(row["ci_high"] - row["value"], rest["value"] - rest["ci_low"])
    return {**row, "value": value, "ci_low": low, "ci_high": high, "with": row, "without": rest}


def _format_correlations(row: Mapping[str, Any]) -> str:
    return f"{with_interval(row['with'])} with length and {with_interval(row['without'])} without"


plot = SectionPlot(
    title="Controls: what is not the surface",
    lens=LENS,
    order=220,
    caption=(
        "Paired differences on the same test examples, in the same folds. Gain: the probe minus the best "
        "surface baseline. Random weights: the probe minus one on the same architecture with random "
        "weights, both on the share that the latter read; the interval includes the spread over several "
        "random weights. Selectivity (Hewitt and Liang 2019): a token task minus a task of random labels, "
        "one for each token type, both with types seen in training. For metrics: ridge regression on the "
        "number, as it is and with the part that length predicts removed."
    ),
    select=_read_rows,
    figure=_draw,
)
