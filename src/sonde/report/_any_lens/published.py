"""The section of a replication: every published figure beside what the run found, with known causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sonde.report._drawing.charts import specification
from sonde.report._shared.beside import Beside, beside, differing, published_tables, stand_ins
from sonde.report._shared.numbers import count, number
from sonde.report._shared.plot import Chart, Figure
from sonde.report._shared.run import RunData
from sonde.report._shared.title import PlainTitle
from sonde.results.formats import Clusters, Count, Format, Number, Row
from sonde.results.published import PublishedTable
from sonde.results.tables import Column, Table
from sonde.results.words import plain_words
from sonde.store.rundir import slug

PUBLISHED = "published"
"""Public name of the section, and of its group on the page."""

title = PlainTitle(name="Replication")


@dataclass(frozen=True, slots=True)
class Published:
    """A table of all figures, and a chart a table of the paper: published along, found here up."""

    lens: str = PUBLISHED
    order: int = -3
    title: str = "Beside the published figures"
    caption: str = (
        "A dot a figure: where the paper has it along the axis, what this run found upwards, with its 95 % "
        "interval; on the dashed line both are the same. Papers give their figures without intervals, so a "
        "difference is no test. What is worked out from several scores has no interval here."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The figures; None where the run replicates nothing."""
        tables = published_tables(run)
        if not tables:
            return None
        found = [one for table in tables for one in beside(run, table)]
        return Figure(
            answer="\n".join(
                _sentence(
                    table,
                    [one for one in found if one.table is table],
                    replaced=bool(stand_ins(run, table)),
                )
                for table in tables
            ),
            charts=[
                chart
                for table in tables
                if (chart := _chart(table, [one for one in found if one.table is table]))
            ],
            table=_table(found, several=len(tables) > 1),
            notes=[*_instead(run, tables), *_asked(run), *_causes(tables), *_left(found)],
        )


def _sentence(table: PublishedTable, found: Sequence[Beside], *, replaced: bool) -> str:
    """How many figures of a table have something beside them, and, of the paper's models, where they lie."""
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


def _chart(table: PublishedTable, found: Sequence[Beside]) -> Chart | None:
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
        spec=specification(alt.layer(*layers).properties(height=260)),
    )


def _table(found: Sequence[Beside], *, several: bool) -> Table:
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
            Column(title="Clusters", value="score", format=Clusters(missing="")),
            Column(title="Nothing here, because", value="why"),
        ],
        rows=rows,
    )


def _instead(run: RunData, tables: Sequence[PublishedTable]) -> list[str]:
    """Which models are read in place of the paper's."""
    pairs = {pair for table in tables for pair in stand_ins(run, table).items()}
    if not pairs:
        return []
    here = dict.fromkeys(plain_words(one) for _, one in sorted(pairs))
    replaced = len({published for published, _ in pairs})
    return [
        f"No model of the paper is in this run: {' and '.join(here)} stand{'s' * (len(here) == 1)} in the "
        f"place of {replaced}. The figures show that the experiment works, and nothing about the paper."
    ]


def _asked(run: RunData) -> list[str]:
    """What was asked otherwise than the paper's file does."""
    apart = differing(run)
    return [f"Asked otherwise than in the file of the paper: {'; '.join(apart)}."] if apart else []


def _causes(tables: Sequence[PublishedTable]) -> list[str]:
    said = dict.fromkeys(cause for table in tables for cause in table.causes)
    return [f"Known causes of differences: {' '.join(said)}"] if said else []


def _left(found: Sequence[Beside]) -> list[str]:
    """Why figures have nothing beside them, by reason."""
    reasons = Counter(one.why for one in found if one.why)
    return [f"{count(times)} without a number here: {why}." for why, times in reasons.most_common()]
