"""What is left when surfaces, memory and length have had their say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import plot_dots, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.probe import LENS, read_with_controls
from sonde.report.text import sort_by_family, task_label
from sonde.results.extremes import describe_extreme, find_extreme, format_subject
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import CONTROL, LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import TOO_LITTLE, Format, caveat, with_interval
from sonde.stats.verdict import no_verdict_reason

_POINTS = {
    "gain": ("gain over the best surface baseline", "probe-gain"),
    "random": ("gain over random weights", "probe-random"),
    "selectivity": ("selectivity against a control task", "probe-selectivity"),
}


_NUMBERS = {
    "spearman": "rank correlation with the number itself",
    "spearman without length": "rank correlation, length partialled out",
}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a control."""
    charts: list[Chart] = []
    for kind, (title, name) in _POINTS.items():
        part = rows.filter(pl.col("kind") == kind)
        if not part.is_empty():
            charts.append(Chart(name=name, title=title.capitalize(), spec=_differences(part, run)))
    for kind, title in _NUMBERS.items():
        ranked = rows.filter(pl.col("kind") == kind).with_columns(shown=run.subject)
        if not ranked.is_empty():
            spec = plot_dots(ranked, _order(ranked), "Spearman's rank correlation")
            name = "probe-numbers" if kind == "spearman" else "probe-numbers-without-length"
            charts.append(Chart(name=name, title=f"{title[:1].upper()}{title[1:]}", spec=spec))
    return Figure(answer=_format_answer(rows, run), charts=charts, table=_build_table(rows))


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


def _order(rows: pl.DataFrame) -> list[str]:
    return [task_label(task) for task in sort_by_family(rows["task"].to_list())]


def _differences(rows: pl.DataFrame, run: RunData) -> dict[str, Any]:
    points = rows.with_columns(pl.col("value", "ci_low", "ci_high") * 100, shown=run.subject)
    spec = plot_dots(points, _order(rows), "points of accuracy")
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(style="reference").encode(x="zero:Q")
    line = to_vega_lite(zero)
    spec["layer"].insert(0, {key: line[key] for key in ("data", "mark", "encoding")})
    return spec


def _format_answer(rows: pl.DataFrame, run: RunData) -> str:
    """Tasks whose correlation falls most when length is taken away, as far as the intervals tell."""
    lines: list[str] = []
    both = rows.filter(pl.col("kind") == "spearman").join(
        rows.filter(pl.col("kind") == "spearman without length").select(*_SAME, *_ENDS),
        on=_SAME,
        suffix="_rest",
    )
    for part in both.with_columns(subject=run.subject).partition_by("subject", maintain_order=True):
        rows_lost = [_compute_length_effect(row) for row in part.iter_rows(named=True)]
        found = find_extreme(rows_lost)
        if len(rows_lost) == 1:
            said = f"the rank correlation of {part['name'][0]} is {_format_correlations(rows_lost[0])}"
            said += caveat(rows_lost[0])
        elif found is not None:
            said = describe_extreme(
                found,
                lambda row: row["name"],
                _format_correlations,
                verb="loses most without length",
                end="top",
            )
            said = f"of the rank correlations with {format_subject(found, 'numbers')}, {said}"
        elif rows_lost:
            shown = [f"{row['name']} {_format_correlations(row)}" for row in rows_lost[:_SHOWN]]
            why = next(filter(None, map(no_verdict_reason, rows_lost)), "they do not vary")
            which = f"{TOO_LITTLE} on which rank correlation loses most without length"
            said = f"{which} ({why}): {'; '.join(shown)}"
        else:
            continue
        lines.append(f"{part['subject'][0]}: {said}.")
    return "\n".join(lines)


_SHOWN = 3
"""Tasks that a sentence names."""


_SAME = ("model", "task", "language")


_ENDS = ("value", "ci_low", "ci_high")


def _compute_length_effect(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a correlation loses without length, with the interval of a difference of two numbers."""
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


def _build_table(rows: pl.DataFrame) -> Table:
    place = {task: at for at, task in enumerate(sort_by_family(rows["task"].to_list()))}
    names = {kind: title for kind, (title, _) in _POINTS.items()} | _NUMBERS
    return Table(
        summary="Every control",
        columns=[
            Column(title="Task", value="name"),
            MODEL,
            LANGUAGE,
            Column(title="Measure", value=lambda row: names[row["kind"]]),
            dataclasses.replace(CONTROL, title="Against", format=Format(missing="")),
            *score_columns("Value", 3),
        ],
        rows=sorted(rows.to_dicts(), key=lambda row: (place[row["task"]], row["kind"])),
    )


plot = SectionPlot(
    title="Controls: what is not the surface",
    lens=LENS,
    order=220,
    caption=(
        "Paired differences on the same tested examples, in the same folds. Gain: the probe minus the best "
        "surface baseline. Random weights: the probe minus one of the same architecture with random weights, "
        "both on the share that the latter read; the interval holds the spread over several random weights. "
        "Selectivity (Hewitt and Liang 2019): a token task minus a task of random labels, one for each token "
        "type, both with types that training has seen. For metrics, ridge regression on the number, as it is "
        "and with what length says of it taken out."
    ),
    select=_read_rows,
    figure=_draw,
)
