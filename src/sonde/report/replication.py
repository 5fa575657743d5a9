"""Replication of a paper: each published figure compared with the run's, with known causes.

The published figures come from the copy of the paper's tables in ``run.json``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from sonde.base.errors import InputError
from sonde.base.formatting import count, format_name, number
from sonde.report.charts import to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, LensTitle, SectionPlot
from sonde.results.published import (
    PublishedFigure,
    PublishedTable,
    Selector,
    base_name,
    combine_scores,
    matches_selector,
    parse_published_table,
)
from sonde.results.tables import Column, Table
from sonde.results.text_format import ClusterCount, Count, Format, Number, Row
from sonde.store.run_folder import slug


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published figure and the corresponding number of the run.

    Attributes:
        table: Table of the figure.
        figure: The figure.
        value: Number of the run in the unit of the figure; None if there is none.
        score: Score of the number; None if several scores give it, or none.
        reason: Reason why there is no number; empty if there is one.
    """

    table: PublishedTable
    figure: PublishedFigure
    value: float | None = None
    score: Row | None = None
    reason: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the score in the unit of the figure; None if none is known."""
        if self.score is None or self.figure.take != "value":
            return None
        ends = self.score["ci_low"], self.score["ci_high"]
        return None if None in ends else (ends[0] * self.figure.scale, ends[1] * self.figure.scale)

    @property
    def numbers(self) -> dict[str, float | None]:
        """Return both numbers and the interval, for charts and tables."""
        low, high = self.interval or (None, None)
        return {"published": self.figure.value, "value": self.value, "low": low, "high": high}


ELSEWHERE = "not in this run"


def find_published_tables(run: RunData) -> list[PublishedTable]:
    """Find the tables that the run replicates; tables that cannot be read are left out."""
    tables: list[PublishedTable] = []
    for name, data in (run.summary.get("published") or {}).get("tables", {}).items():
        try:
            tables.append(parse_published_table(name, data))
        except (InputError, KeyError, TypeError, ValueError):
            # The folder of a run may come from anywhere: a page without this table is better than none.
            continue
    return tables


def match_paper_models(run: RunData, table: PublishedTable) -> dict[str, str]:
    """Map models of a table to models of the run in their place; empty if the run has one of them."""
    run_models = {base_name(model.name) for model in run.models}
    paper_models = [base_name(name) for name in table.models]
    if run_models & set(paper_models) or not run.models:
        return {}
    return {name: run.models[index % len(run.models)].name for index, name in enumerate(paper_models)}


def compare_with_paper(run: RunData, table: PublishedTable) -> list[PublishedComparison]:
    """Compare every figure of a table with the run."""
    lookup = _ScoreLookup(run, table, match_paper_models(run, table))
    return [_compare_figure(table, figure, lookup) for figure in table.figures]


def _compare_figure(
    table: PublishedTable, figure: PublishedFigure, lookup: _ScoreLookup
) -> PublishedComparison:
    value, score, reason = None, None, figure.nowhere
    if figure.how and not reason:
        value = _to_number(combine_scores(figure, lookup.get_value))
    elif not reason:
        matches = lookup.find_scores(figure.where)
        if len(matches) == 1:
            score = matches[0]
            value = _to_number(score[figure.take])
        elif matches:
            reason = f"{len(matches)} scores of the run fit"
    if value is None:
        return PublishedComparison(table=table, figure=figure, reason=reason or ELSEWHERE)
    return PublishedComparison(table=table, figure=figure, value=value * figure.scale, score=score)


def _to_number(value: Any) -> float | None:
    """Convert a number, or a text that is one, to a finite float; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


class _ScoreLookup:
    """Scores that a table may need, by task and metric."""

    def __init__(self, run: RunData, table: PublishedTable, stand_ins: Mapping[str, str]) -> None:
        self._instead = stand_ins
        selectors = [selector for figure in table.figures for selector in figure.asked]
        scores = run.every_score
        for column in ("lens", "metric", "split"):
            if selectors and all(column in selector for selector in selectors):
                scores = scores.filter(pl.col(column).is_in({selector[column] for selector in selectors}))
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in scores.to_dicts():
            self._rows.setdefault((row["task"], row["metric"]), []).append(row)

    def find_scores(self, selector: Selector) -> Sequence[Row]:
        """Return the scores that match a selector, of the stand-in for a model of the paper."""
        model = selector.get("model")
        if model is not None and base_name(model) in self._instead:
            selector = {**selector, "model": self._instead[base_name(model)]}
        return [
            row
            for (task, metric), rows in self._rows.items()
            if selector.get("task", task) == task and selector.get("metric", metric) == metric
            for row in rows
            if matches_selector(row, selector)
        ]

    def get_value(self, selector: Selector) -> float:
        """Return the value of the only score that matches a selector; NaN for none or several."""
        matches = self.find_scores(selector)
        return matches[0]["value"] if len(matches) == 1 else math.nan


def _list_changes(
    paper_values: Mapping[str, Any], run_values: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    changes: list[str] = []
    for name in dict.fromkeys([*paper_values, *run_values]):
        paper_value, run_value = paper_values.get(name), run_values.get(name)
        if paper_value == run_value:
            continue
        if isinstance(paper_value, dict) or isinstance(run_value, dict):
            changes += _list_changes(
                paper_value or {}, run_value or {}, f"{prefix}{name}." if name != "selection" else prefix
            )
        else:
            changes.append(
                f"{prefix.removeprefix('options.')}{name}: {_to_text(run_value)} in place of "
                f"{_to_text(paper_value)}"
            )
    return changes


def _to_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)


REPLICATION = "published"
"""Public name of the section, and of its group on the page."""


title = LensTitle(name="Replication")


def _build_figure(run: RunData, tables: Sequence[PublishedTable]) -> Figure:
    """Build a table of all figures, and a scatter per published table."""
    by_table = [(table, compare_with_paper(run, table)) for table in tables]
    comparisons = [comparison for _, table_comparisons in by_table for comparison in table_comparisons]
    return Figure(
        answer="\n".join(
            _format_sentence(table, part, has_stand_ins=bool(match_paper_models(run, table)))
            for table, part in by_table
        ),
        charts=[chart for table, part in by_table if (chart := _build_chart(table, part))],
        table=_build_table(comparisons, show_table=len(tables) > 1),
        notes=[
            *_describe_stand_ins(run, tables),
            *_describe_changed_options(run),
            *_list_causes(tables),
            *_count_missing_figures(comparisons),
        ],
    )


plot = SectionPlot(
    lens=REPLICATION,
    order=-3,
    title="Compared with the published figures",
    caption=(
        "One dot per figure: the paper's value on the horizontal axis, this run's value with its 95 % "
        "interval on the vertical axis. On the dashed line both are the same. Papers give their figures "
        "without intervals, so a difference is no test. Values computed from several scores have no "
        "interval here."
    ),
    select=find_published_tables,
    figure=_build_figure,
)


def _format_sentence(
    table: PublishedTable, comparisons: Sequence[PublishedComparison], *, has_stand_ins: bool
) -> str:
    """Count the figures of a table with a number in the run, and, for the paper's models, their position."""
    name = f"{table.paper}, {table.source.partition(',')[0]} ({table.title[:1].lower()}{table.title[1:]})"
    matches = [comparison for comparison in comparisons if comparison.value is not None]
    if not matches:
        return f"{name}: none of its {count(len(comparisons))} figures has a number in this run."
    intervals = [
        (comparison.figure.value, *ends)
        for comparison in matches
        if (ends := comparison.interval) is not None
    ]
    n_inside = sum(low <= value <= high for value, low, high in intervals)
    n_above = sum(value > high for value, _, high in intervals)
    sentence = (
        f"{name}: {count(len(matches))} of its {count(len(comparisons))} figures have a number in this run"
    )
    if not intervals or has_stand_ins:
        return f"{sentence}."
    return (
        f"{sentence}; of {count(len(intervals))} with an interval, the published figure lies inside "
        f"{count(n_inside)}, above {count(n_above)} and below {count(len(intervals) - n_inside - n_above)}."
    )


def _build_chart(table: PublishedTable, comparisons: Sequence[PublishedComparison]) -> Chart | None:
    records = [
        {
            "name": f"{comparison.figure.row}, {comparison.figure.column}",
            **comparison.numbers,
            "said": number(comparison.figure.value, comparison.figure.digits),
            "reading": number(comparison.value, comparison.figure.digits),
        }
        for comparison in comparisons
        # Counts and other columns of a scale of their own would leave all else in a corner.
        if comparison.value is not None and comparison.figure.take == "value"
    ]
    if not records:
        return None
    ends = [
        value for record in records for key in ("published", "value") if (value := record[key]) is not None
    ]
    line = [{"at": min(ends), "up": min(ends)}, {"at": max(ends), "up": max(ends)}]
    x = alt.X("published:Q", title=f"published in {table.unit}", scale=alt.Scale(zero=False))
    base = alt.Chart(alt.Data(values=records)).encode(
        x=x,
        tooltip=[
            alt.Tooltip("name:N", title=" "),
            alt.Tooltip("said:N", title="published"),
            alt.Tooltip("reading:N", title="here"),
        ],
    )
    y = alt.Y("value:Q", title=f"here in {table.unit}", scale=alt.Scale(zero=False))
    layers = [
        alt.Chart(alt.Data(values=line)).mark_line(style="reference").encode(x="at:Q", y="up:Q"),
        base.mark_rule(style="interval").encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(style="dot", filled=True).encode(y=y),
    ]
    return Chart(
        name=f"published-{slug(table.name.replace('/', '-'))}",
        title=f"{table.source.partition(',')[0].capitalize()}: {table.title}",
        spec=to_vega_lite(alt.layer(*layers).properties(height=260)),
    )


def _build_table(comparisons: Sequence[PublishedComparison], *, show_table: bool) -> Table:
    rows: list[dict[str, Any]] = [
        {
            "table": f"{comparison.table.paper}, {comparison.table.source.partition(',')[0]}",
            "row": comparison.figure.row,
            "column": comparison.figure.column,
            "unit": comparison.table.unit if comparison.figure.take == "value" else "",
            **comparison.numbers,
            "apart": None if comparison.value is None else comparison.value - comparison.figure.value,
            "n": comparison.score["n"] if comparison.score else None,
            "n_clusters": comparison.score["n_clusters"] if comparison.score else None,
            "score": comparison.score,
            "digits": comparison.figure.digits,
            "reason": comparison.reason,
        }
        for comparison in comparisons
    ]

    def digits(row: Row) -> Format:
        return Number(digits=row["digits"], missing="")

    def interval(row: Row) -> str:
        if row["low"] is None or row["high"] is None:
            return ""
        low, high = (number(row[end], row["digits"]) for end in ("low", "high"))
        return f"{low} to {high}"

    return Table(
        summary=f"Every published figure: {count(len(rows))}",
        columns=[
            *([Column(title="Table", value="table")] if show_table else []),
            Column(title="Row", value="row"),
            Column(title="Column", value="column"),
            Column(title="Unit", value="unit"),
            Column(title="Published", value="published", format=digits),
            Column(title="Here", value="value", format=digits),
            Column(title="95 % interval", value=interval),
            Column(title="Difference", value="apart", format=digits),
            Column(title="n", value="n", format=Count(missing="")),
            Column(title="Clusters", value="score", format=ClusterCount(missing="")),
            Column(title="Nothing here, because", value="reason"),
        ],
        rows=rows,
    )


def _describe_stand_ins(run: RunData, tables: Sequence[PublishedTable]) -> list[str]:
    """Describe which models stand in for the paper's."""
    pairs = {pair for table in tables for pair in match_paper_models(run, table).items()}
    if not pairs:
        return []
    names = dict.fromkeys(format_name(name) for _, name in sorted(pairs))
    n_models = len({paper_model for paper_model, _ in pairs})
    verb = "takes" if len(names) == 1 else "take"
    return [
        f"No model of the paper is in this run: {' and '.join(names)} {verb} the "
        f"place of {n_models}. The figures show that the experiment works, and nothing about the paper."
    ]


def _describe_changed_options(run: RunData) -> list[str]:
    """Describe the options that differ from the paper's experiment file."""
    paper_values = (run.summary.get("published") or {}).get("file") or {}
    changes = _list_changes(paper_values, run.summary.get("arguments") or {}) if paper_values else []
    return (
        [f"Options that differ from the experiment file of the paper: {'; '.join(changes)}."]
        if changes
        else []
    )


def _list_causes(tables: Sequence[PublishedTable]) -> list[str]:
    causes = dict.fromkeys(cause for table in tables for cause in table.causes)
    return [f"Known causes of differences: {' '.join(causes)}"] if causes else []


def _count_missing_figures(comparisons: Sequence[PublishedComparison]) -> list[str]:
    """Count the figures without a number in the run, by reason."""
    reasons = Counter(comparison.reason for comparison in comparisons if comparison.reason)
    return [f"{count(times)} without a number here: {reason}." for reason, times in reasons.most_common()]
