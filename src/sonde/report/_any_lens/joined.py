"""The section over lenses: a row a construct, a column a lens, and what each says of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import altair as alt

from sonde.report._drawing.charts import specification
from sonde.report._shared.against import ABOVE, ALONE, BELOW, LEVEL, OPEN, SLIGHT
from sonde.report._shared.joined import JoinedCell, JoinedNumber, JoinedRow, joined_rows
from sonde.report._shared.numbers import spelled, with_interval
from sonde.report._shared.plot import Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report._shared.title import PlainTitle, titles
from sonde.results.formats import COUNT, Number, WithInterval
from sonde.results.tables import Column
from sonde.results.words import NO_DIFFERENCE, TOO_LITTLE, plain_words

JOINED = "joined"
"""Public name of the section, and of its group on the page."""

title = PlainTitle(name="Constructs over lenses")

_FEWEST = 3
"""Constructs below which a scatter shows nothing."""

_LINES = (-8, 12, -21, 25)
"""How far above or below its point a name may stand, in pixels."""

_READS = {
    ABOVE: "better",
    BELOW: "worse",
    SLIGHT: "apart by less than matters",
    LEVEL: NO_DIFFERENCE,
    ALONE: "no control",
    OPEN: TOO_LITTLE,
}


@dataclass(frozen=True, slots=True)
class Joined:
    """A table of constructs, and a scatter of each lens beside the one that is no share."""

    lens: str = JOINED
    order: int = -1
    title: str = "Constructs over lenses"
    caption: str = (
        "A row a construct of the language, a column a lens, with 95 % intervals; dots are hollow where too "
        "little independent code is behind either number for a verdict. Where several facts of a lens belong "
        "to a construct, the one with most observations stands there, chosen without a look at the numbers; "
        "how many there are is said beside it. A point is two numbers of one construct, made of other tokens "
        "and often of different functions: a scatter shows where to look, and is no test."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The table and scatters; None where no two lenses say something of the same construct."""
        offered = {lens: one.joined.in_run(run, lens) for lens, one in titles(run).items() if one.joined}
        rows = joined_rows(run, offered)
        if not rows:
            return None
        held = {lens: one for lens, one in offered.items() if any(lens in row.cells for row in rows)}
        labels = {model.name: model.label for model in run.models}
        return Figure(
            answer="\n".join(_sentences(run, rows, held, labels)),
            charts=list(_charts(run, rows, held, labels)),
            table=_table(run, rows, held, labels),
            notes=[_same(held), *_standing(rows, held, labels)],
        )


def _who(run: RunData, row: JoinedRow, labels: Mapping[str, str]) -> str:
    parts = [plain_words(labels.get(row.model, row.model))]
    parts += [spelled(row.language)] if len(run.languages) > 1 else []
    return ", ".join(parts)


def _inside_yet_unsure(row: JoinedRow, offered: Mapping[str, JoinedNumber]) -> bool:
    """Whether all that is read inside the model is there, and it predicts worse than usual."""
    inside = [cell.kind for lens, cell in row.cells.items() if offered[lens].inside]
    unsure = [cell.kind for lens, cell in row.cells.items() if offered[lens].question.lower]
    return bool(inside) and bool(unsure) and set(inside) == {ABOVE} and set(unsure) == {BELOW}


def _sentences(
    run: RunData, rows: Sequence[JoinedRow], offered: Mapping[str, JoinedNumber], labels: Mapping[str, str]
) -> Iterator[str]:
    """One line a model and language: where it holds more inside than it shows."""
    inside = [one.title.partition(",")[0].lower() for one in offered.values() if one.inside]
    unsure = [one.title.partition(",")[0].lower() for one in offered.values() if one.question.lower]
    for who, part in groupby(rows, lambda row: _who(run, row, labels)):
        some = list(part)
        lenses = {lens for row in some for lens in row.cells}
        both = [
            row
            for row in some
            if any(offered[lens].inside for lens in row.cells)
            and any(offered[lens].question.lower for lens in row.cells)
        ]
        if not both:
            number = f"{len(some)} construct{'s' * (len(some) != 1)}"
            yield f"{who}: {number} that two lenses or more speak of ({len(lenses)} lenses)."
            continue
        found = [plain_words(row.construct) for row in both if _inside_yet_unsure(row, offered)]
        named = f" ({', '.join(found)})" if found else ""
        yield (
            f"{who}: of {len(both)} construct{'s' * (len(both) != 1)} that "
            f"{'has' if len(both) == 1 else 'have'} {' and '.join(unsure)} beside "
            f"{' or '.join(inside)}, {len(found)} {'is' if len(found) == 1 else 'are'} found inside while "
            f"the model is less sure than usual{named}."
        )


def _same(offered: Mapping[str, JoinedNumber]) -> str:
    said = [one.same for one in offered.values() if one.same]
    return f"What is counted under a construct: {'; '.join(said)}."


def _standing(
    rows: Sequence[JoinedRow], offered: Mapping[str, JoinedNumber], labels: Mapping[str, str]
) -> Iterator[str]:
    """How many constructs each pair of lenses can be joined on, and which are of one lens alone."""
    yield (
        "Heads, layers and penalties are chosen on validation and their numbers are of the test; a number "
        "that stands out of many here was not chosen so, and has to be looked at again on other code."
    )
    lenses = list(offered)
    for model, part in groupby(rows, lambda row: row.model):
        some = list(part)
        pairs = [
            f"{_short(offered[one])} and {_short(offered[other])} {count}"
            for place, one in enumerate(lenses)
            for other in lenses[place + 1 :]
            if (count := sum(one in row.cells and other in row.cells for row in some))
        ]
        every = sum(len(row.cells) == len(lenses) for row in some)
        yield (
            f"Constructs with both numbers, {plain_words(labels.get(model, model))}: {', '.join(pairs)}; "
            f"with all {len(lenses)}: {every}."
        )
    against = [f"{_short(one)} {one.against}" for one in offered.values()]
    yield f"Better and worse are by the intervals, held against: {'; '.join(against)}."


def _short(number: JoinedNumber) -> str:
    return number.title.partition(",")[0].lower()


def _scale(number: JoinedNumber) -> tuple[float, int]:
    return (100.0, 1) if number.question.share else (number.scale, 2)


def _table(
    run: RunData, rows: Sequence[JoinedRow], offered: Mapping[str, JoinedNumber], labels: Mapping[str, str]
) -> Table:
    columns = [
        Column(title="Construct", value=lambda row: plain_words(row["joined"].construct)),
        Column(title="Of", value=lambda row: _who(run, row["joined"], labels)),
    ]
    for lens, number in offered.items():
        columns += _columns(lens, number)
    columns.append(
        Column(
            title="Inside, yet unsure",
            value=lambda row: "yes" if _inside_yet_unsure(row["joined"], offered) else None,
            help="All that is read inside the model beats its control, while it is less sure than usual.",
        )
    )
    return Table(
        summary="Every construct that two lenses speak of",
        columns=columns,
        rows=[{"joined": row} for row in rows],
    )


def _columns(lens: str, number: JoinedNumber) -> list[Column]:
    scale, digits = _scale(number)
    unit = ", %" if number.question.share else ""
    short = number.title.partition(",")[0]

    def cell(row: Mapping[str, Any]) -> JoinedCell | None:
        return row["joined"].cells.get(lens)

    def score(row: Mapping[str, Any]) -> Any:
        return held.row if (held := cell(row)) else None

    def fact(row: Mapping[str, Any]) -> str | None:
        held = cell(row)
        if held is None:
            return None
        return f"{held.fact} (1 of {held.among})" if held.among > 1 else held.fact

    return [
        Column(
            title=f"{number.title}{unit}",
            value=score,
            format=WithInterval(digits=digits, scale=scale, missing=""),
        ),
        Column(
            title=f"{short}: against{unit}",
            value=lambda row: held.level if (held := cell(row)) else None,
            format=Number(digits=digits, scale=scale, missing=""),
            help=f"Held against {number.against}.",
        ),
        Column(
            title=f"{short}: verdict",
            value=lambda row: _READS[held.kind] if (held := cell(row)) else None,
            help=f"By the interval, against {number.against}.",
        ),
        Column(title=f"{short}: what", value=fact, help="The fact with most observations of the construct."),
        Column(
            title=f"{short}: n",
            value=lambda row: held.row["n"] if (held := cell(row)) else None,
            format=COUNT,
        ),
    ]


def _charts(
    run: RunData, rows: Sequence[JoinedRow], offered: Mapping[str, JoinedNumber], labels: Mapping[str, str]
) -> Iterator[Chart]:
    """Each share beside the number that is no share; beside the first share where there is none."""
    x = next((lens for lens, one in offered.items() if not one.question.share), next(iter(offered)))
    for who, part in groupby(rows, lambda row: _who(run, row, labels)):
        some = list(part)
        for y, number in offered.items():
            both = [row for row in some if x in row.cells and y in row.cells]
            if y == x or len(both) < _FEWEST:
                continue
            yield Chart(
                name=f"joined-{y}-{_stem(who)}",
                title=f"{_short(offered[x]).capitalize()} and {_short(number)}, {who}",
                spec=_spec(both, (x, offered[x]), (y, number)),
                wide=True,
            )


def _stem(who: str) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in who.lower())


def _spec(
    rows: Sequence[JoinedRow], x: tuple[str, JoinedNumber], y: tuple[str, JoinedNumber]
) -> dict[str, Any]:
    records = [
        {
            "construct": plain_words(row.construct),
            **_place("x", row.cells[x[0]], x[1]),
            **_place("y", row.cells[y[0]], y[1]),
            "few": OPEN in (row.cells[x[0]].kind, row.cells[y[0]].kind),
        }
        for row in rows
    ]
    for record, line in zip(records, _lines(records), strict=True):
        record["line"] = line
    base = alt.Chart(alt.Data(values=records)).encode(
        x=_axis("x", x[1]),
        y=_axis("y", y[1]),
        tooltip=[
            alt.Tooltip("construct:N", title=" "),
            alt.Tooltip("x_reading:N", title=_short(x[1])),
            alt.Tooltip("y_reading:N", title=_short(y[1])),
            alt.Tooltip("x_fact:N", title="of"),
            alt.Tooltip("y_fact:N", title="of"),
        ],
    )
    layers = [
        base.mark_rule(style="interval", clip=True, strokeWidth=1).encode(x="x_low:Q", x2="x_high:Q"),
        base.mark_rule(style="interval", clip=True, strokeWidth=1).encode(y="y_low:Q", y2="y_high:Q"),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True),
        base.transform_filter("datum.few").mark_point(style="few", filled=False),
        *(
            base.transform_filter(f"datum.line == {line}")
            .mark_text(style="name", align="left", dx=7, dy=dy)
            .encode(text="construct:N")
            for line, dy in enumerate(_LINES)
        ),
    ]
    return specification(alt.layer(*layers).properties(height=360))


def _lines(records: Sequence[Mapping[str, Any]]) -> list[int]:
    """Beside each point the first of `_LINES` on which no name before it stands in the way."""
    ends = [[one[axis] for one in records] for axis in ("x", "y")]
    width, height = (max(some) - min(some) or 1.0 for some in ends)
    taken: list[int] = []
    for record in records:
        near = {
            line
            for other, line in zip(records, taken, strict=False)
            if abs(other["x"] - record["x"]) < 0.16 * width and abs(other["y"] - record["y"]) < 0.07 * height
        }
        taken.append(next((line for line in range(len(_LINES)) if line not in near), 0))
    return taken


def _place(axis: str, cell: JoinedCell, number: JoinedNumber) -> dict[str, Any]:
    row, (scale, digits) = cell.row, _scale(number)
    return {
        axis: row["value"] * number.scale,
        f"{axis}_low": _times(row["ci_low"], number.scale),
        f"{axis}_high": _times(row["ci_high"], number.scale),
        f"{axis}_reading": f"{with_interval(row, scale, digits)}{' %' if number.question.share else ''}",
        f"{axis}_fact": cell.fact,
    }


def _times(end: float | None, scale: float) -> float | None:
    return None if end is None else end * scale


def _axis(axis: str, number: JoinedNumber) -> Any:
    share = number.question.share
    scale = alt.Scale(domain=[0, 1], nice=False) if share else alt.Scale(zero=False, nice=True)
    of = alt.X if axis == "x" else alt.Y
    return of(
        f"{axis}:Q",
        title=number.title,
        scale=scale,
        axis=alt.Axis(format="%") if share else alt.Axis(tickCount=6),
    )
