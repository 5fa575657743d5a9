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
from sonde.report.section import Chart, Figure, PlainTitle
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
        why: Reason why there is no number; empty if there is one.
    """

    table: PublishedTable
    figure: PublishedFigure
    value: float | None = None
    score: Row | None = None
    why: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the score in the unit of the figure; None if none is known."""
        if self.score is None or self.figure.take != "value":
            return None
        ends = self.score["ci_low"], self.score["ci_high"]
        return None if None in ends else (ends[0] * self.figure.scale, ends[1] * self.figure.scale)


ELSEWHERE = "not in this run"


def find_published_tables(run: RunData) -> list[PublishedTable]:
    """Find the tables that the run replicates; tables that cannot be read are left out."""
    found: list[PublishedTable] = []
    for name, data in (run.summary.get("published") or {}).get("tables", {}).items():
        try:
            found.append(parse_published_table(name, data))
        except (InputError, KeyError, TypeError, ValueError):
            # The folder of a run may come from anywhere: a page without this table is better than none.
            continue
    return found


def match_paper_models(run: RunData, table: PublishedTable) -> dict[str, str]:
    """Map models of a table to models of the run in their place; empty if the run has one of them."""
    own = {base_name(model.name) for model in run.models}
    published = [base_name(one) for one in table.models]
    if own & set(published) or not run.models:
        return {}
    return {one: run.models[place % len(run.models)].name for place, one in enumerate(published)}


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
        matches = lookup.matching(figure.where)
        if len(matches) == 1:
            score = matches[0]
            value = _to_number(score[figure.take])
        elif matches:
            reason = f"{len(matches)} scores of the run fit"
    if value is None:
        return PublishedComparison(table=table, figure=figure, why=reason or ELSEWHERE)
    return PublishedComparison(table=table, figure=figure, value=value * figure.scale, score=score)


def _to_number(value: Any) -> float | None:
    """Convert a number, or a text that is one, to a finite float; None for anything else."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


class _ScoreLookup:
    """Scores that a table may need, by task and metric."""

    def __init__(self, run: RunData, table: PublishedTable, instead: Mapping[str, str]) -> None:
        self._instead = instead
        asked = [one for figure in table.figures for one in figure.asked]
        kept = run.every_score
        for column in ("lens", "metric", "split"):
            if asked and all(column in one for one in asked):
                kept = kept.filter(pl.col(column).is_in({one[column] for one in asked}))
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in kept.to_dicts():
            self._rows.setdefault((row["task"], row["metric"]), []).append(row)

    def matching(self, selector: Selector) -> Sequence[Row]:
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
        found = self.matching(selector)
        return found[0]["value"] if len(found) == 1 else math.nan


def _list_changes(shipped: Mapping[str, Any], asked: Mapping[str, Any], within: str = "") -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys([*shipped, *asked]):
        before, now = shipped.get(name), asked.get(name)
        if before == now:
            continue
        if isinstance(before, dict) or isinstance(now, dict):
            found += _list_changes(
                before or {}, now or {}, f"{within}{name}." if name != "selection" else within
            )
        else:
            found.append(
                f"{within.removeprefix('options.')}{name}: {_to_text(now)} in place of {_to_text(before)}"
            )
    return found


def _to_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)


PUBLISHED = "published"
"""Public name of the section, and of its group on the page."""


title = PlainTitle(name="Replication")


@dataclass(frozen=True, slots=True)
class ReplicationSection:
    """Section with a table of all figures, and a scatter per published table."""

    lens: str = PUBLISHED
    order: int = -3
    title: str = "Beside the published figures"
    caption: str = (
        "A dot a figure: where the paper has it along the axis, what this run found upwards, with its 95 % "
        "interval; on the dashed line both are the same. Papers give their figures without intervals, so a "
        "difference is no test. What is worked out from several scores has no interval here."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Draw the figures; None if the run replicates nothing."""
        tables = find_published_tables(run)
        if not tables:
            return None
        found = [one for table in tables for one in compare_with_paper(run, table)]
        return Figure(
            answer="\n".join(
                _format_sentence(
                    table,
                    [one for one in found if one.table is table],
                    replaced=bool(match_paper_models(run, table)),
                )
                for table in tables
            ),
            charts=[
                chart
                for table in tables
                if (chart := _build_chart(table, [one for one in found if one.table is table]))
            ],
            table=_build_table(found, several=len(tables) > 1),
            notes=[
                *_describe_stand_ins(run, tables),
                *_describe_changed_options(run),
                *_list_causes(tables),
                *_count_missing_figures(found),
            ],
        )


def _format_sentence(table: PublishedTable, found: Sequence[PublishedComparison], *, replaced: bool) -> str:
    """Count the figures of a table with a number in the run, and, for the paper's models, their position."""
    name = f"{table.paper}, {table.source.partition(',')[0]} ({table.title[:1].lower()}{table.title[1:]})"
    own = [one for one in found if one.value is not None]
    if not own:
        return f"{name}: none of its {count(len(found))} figures has a number in this run."
    told = [(one.figure.value, *ends) for one in own if (ends := one.interval) is not None]
    inside = sum(low <= value <= high for value, low, high in told)
    below = sum(value > high for value, _, high in told)
    said = f"{name}: {count(len(own))} of its {count(len(found))} figures have a number in this run"
    if not told or replaced:
        return f"{said}."
    return (
        f"{said}; of {count(len(told))} with an interval, the published figure lies inside {count(inside)}, "
        f"above {count(below)} and below {count(len(told) - inside - below)}."
    )


def _build_chart(table: PublishedTable, found: Sequence[PublishedComparison]) -> Chart | None:
    records = [
        {
            "name": f"{one.figure.row}, {one.figure.column}",
            "published": one.figure.value,
            "value": one.value,
            **dict(zip(("low", "high"), one.interval or (None, None), strict=True)),
            "said": number(one.figure.value, one.figure.digits),
            "reading": number(one.value, one.figure.digits),
        }
        for one in found
        # Counts and other columns of a scale of their own would leave all else in a corner.
        if one.value is not None and one.figure.take == "value"
    ]
    if not records:
        return None
    ends = [value for one in records for key in ("published", "value") if (value := one[key]) is not None]
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


def _build_table(found: Sequence[PublishedComparison], *, several: bool) -> Table:
    rows: list[dict[str, Any]] = [
        {
            "table": f"{one.table.paper}, {one.table.source.partition(',')[0]}",
            "row": one.figure.row,
            "column": one.figure.column,
            "unit": one.table.unit if one.figure.take == "value" else "",
            "published": one.figure.value,
            "value": one.value,
            **dict(zip(("low", "high"), one.interval or (None, None), strict=True)),
            "apart": None if one.value is None else one.value - one.figure.value,
            "n": one.score["n"] if one.score else None,
            "n_clusters": one.score["n_clusters"] if one.score else None,
            "score": one.score,
            "digits": one.figure.digits,
            "why": one.why,
        }
        for one in found
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
            *([Column(title="Table", value="table")] if several else []),
            Column(title="Row", value="row"),
            Column(title="Column", value="column"),
            Column(title="Unit", value="unit"),
            Column(title="Published", value="published", format=digits),
            Column(title="Here", value="value", format=digits),
            Column(title="95 % interval", value=interval),
            Column(title="Difference", value="apart", format=digits),
            Column(title="n", value="n", format=Count(missing="")),
            Column(title="Clusters", value="score", format=ClusterCount(missing="")),
            Column(title="Nothing here, because", value="why"),
        ],
        rows=rows,
    )


def _describe_stand_ins(run: RunData, tables: Sequence[PublishedTable]) -> list[str]:
    """Describe which models stand in for the paper's."""
    pairs = {pair for table in tables for pair in match_paper_models(run, table).items()}
    if not pairs:
        return []
    here = dict.fromkeys(format_name(one) for _, one in sorted(pairs))
    replaced = len({published for published, _ in pairs})
    return [
        f"No model of the paper is in this run: {' and '.join(here)} stand{'s' * (len(here) == 1)} in the "
        f"place of {replaced}. The figures show that the experiment works, and nothing about the paper."
    ]


def _describe_changed_options(run: RunData) -> list[str]:
    """Describe the options that differ from the paper's experiment file."""
    shipped = (run.summary.get("published") or {}).get("file") or {}
    changes = _list_changes(shipped, run.summary.get("arguments") or {}) if shipped else []
    return [f"Asked otherwise than in the file of the paper: {'; '.join(changes)}."] if changes else []


def _list_causes(tables: Sequence[PublishedTable]) -> list[str]:
    said = dict.fromkeys(cause for table in tables for cause in table.causes)
    return [f"Known causes of differences: {' '.join(said)}"] if said else []


def _count_missing_figures(found: Sequence[PublishedComparison]) -> list[str]:
    """Count the figures without a number in the run, by reason."""
    reasons = Counter(one.why for one in found if one.why)
    return [f"{count(times)} without a number here: {why}." for why, times in reasons.most_common()]
