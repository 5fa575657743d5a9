"""The number that speaks for a lens, with its intervals, along the dimension that tells most."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from sonde.languages import spelled
from sonde.report.charts import row_height, specification
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, Tile, Top
from sonde.report.text import no_verdict
from sonde.results.headlines import (
    PLACES,
    QUALIFIERS,
    Controls,
    Finding,
    answering,
    control_words,
    controls_of,
    dimension_names,
    dimension_words,
    findings,
    metric_words,
    place_of,
    sentence,
)
from sonde.results.tables import CONTROL, Column, Table, scored
from sonde.results.text_format import (
    DASH,
    TOO_LITTLE,
    Count,
    Format,
    Row,
    count,
    digits_of,
    in_figures,
    interval,
    legible,
    number,
    plain_words,
)
from sonde.stats.verdict import verdict_allowed
from sonde.store.run_folder import slug

SHOWN = 30
"""Values of a dimension that a chart holds; more cannot be read."""


def charts(
    run: RunData, lens: str, rows: pl.DataFrame, found: Sequence[Finding]
) -> tuple[list[Chart], list[str]]:
    """The chart, and what a reader has to know of what it leaves out; none where there is no number.

    Args:
        run: The run.
        lens: Public name of the lens.
        rows: Its scores with ``shown``, those of controls included.
        found: What speaks for it.
    """
    if not found:
        return [], []
    listed = rows.to_dicts()
    asked = _asked(found[0].row)
    own = [row for row in listed if row["control"] is None and _asked(row) == asked]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in own:
        groups.setdefault(dimension_names(row), []).append(row)
    names = max(groups, key=lambda one: (_tells(groups[one]), -len(one)))
    chosen, beside = groups[names], controls_of(listed)
    metric = metric_words(found[0].row)
    by = f" by {' and '.join(plain_words(name) for name in names)}" if names else ""
    title = f"{metric[:1].upper()}{metric[1:]}{by}"
    name = f"{slug(lens)}-numbers"
    if names == ("layer",):
        spec = _along_layers(chosen, beside, _axis(metric))
        return [Chart(name=name, title=title, spec=spec, wide=True)], []
    shown, notes = _capped(run, chosen, names)
    spec = _dots(run, shown, names, beside, _axis(metric))
    return [Chart(name=name, title=title, spec=spec, wide=True)], notes


def _asked(row: Row) -> tuple[Any, ...]:
    return (*(row[name] for name in QUALIFIERS if name != "chosen"), row["side"])


def _tells(rows: Sequence[Row]) -> float:
    """How far the values of a dimension lie apart, in widths of their intervals; -1 for one value."""
    apart = {(dimension_words(row)) for row in rows}
    if len(apart) < 2:
        return -1.0
    widths = [row["ci_high"] - row["ci_low"] for row in rows if None not in (row["ci_low"], row["ci_high"])]
    width = statistics.fmean(widths) if widths else 0.0
    spread = statistics.pstdev(row["value"] for row in rows)
    return spread / width if width > 0 else 0.0


def _label(run: RunData, row: Row, names: Sequence[str]) -> str:
    """What a line of the chart is about: the value alone where one dimension is drawn."""
    words = dimension_words(row) if names else "everything"
    if len(names) == 1 and row["dimensions"]:
        words = plain_words(row["dimensions"][0]["value"]) or "(empty)"
    return f"{words} \u00b7 {plain_words(row['language'])}" if len(run.languages) > 1 else words


def _capped(run: RunData, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[str]]:
    """The rows of the values with most observations, and what to say of the others."""
    observations: dict[str, int] = {}
    for row in rows:
        label = _label(run, row, names)
        observations[label] = observations.get(label, 0) + (row["n"] or 0)
    if len(observations) <= SHOWN:
        return list(rows), []
    kept = set(sorted(observations, key=lambda one: -observations[one])[:SHOWN])
    note = f"The chart shows the {SHOWN} values with the most observations, of {len(observations):,}."
    return [row for row in rows if _label(run, row, names) in kept], [note]


def _axis(metric: str) -> str:
    """A metric as the title of an axis, which Vega compiles: letters, figures and blanks alone."""
    return re.sub(r"[^\w ]+", " ", metric).strip() or "value"


def _record(row: Row, name: object, beside: Controls) -> dict[str, Any]:
    controls = answering(beside, row)
    return {
        "name": name,
        "model": plain_words(row["shown"]),
        "value": row["value"],
        "low": row["ci_low"],
        "high": row["ci_high"],
        "reading": in_figures(row),
        "count": f"{row['n']:,}",
        "clusters": row["n_clusters"],
        "few": no_verdict(row),
        "control": controls[0]["value"] if controls else None,
        "beside": "; ".join(control_words(one) for one in controls) or "none",
    }


def _tooltip(unit: str, kind: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(f"name:{kind}", title=" "),
        alt.Tooltip("model:N"),
        alt.Tooltip("reading:N", title=unit),
        alt.Tooltip("beside:N", title="control"),
        alt.Tooltip("count:N", title="n"),
        alt.Tooltip("clusters:Q"),
    ]


def _dots(
    run: RunData,
    rows: Sequence[Row],
    names: Sequence[str],
    beside: Controls,
    unit: str,
) -> dict[str, Any]:
    """A line a value of the dimension; models side by side in colours, the first control as a tick."""
    records = [_record(row, _label(run, row, names), beside) for row in rows]
    numeric = all(re.fullmatch(r"-?\d{1,9}", str(one["name"])) for one in records)
    # By number where the values are numbers, else from high to low.
    ranked = sorted(records, key=lambda one: int(one["name"]) if numeric else -one["value"])
    order = list(dict.fromkeys(one["name"] for one in ranked))
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("name:N", sort=order, title=None), tooltip=_tooltip(unit, "N")
    )
    models = {one["model"] for one in records}
    controls = base
    if len(models) > 1:
        controls = base.encode(yOffset=alt.YOffset("model:N", sort=None))
        base = controls.encode(color=alt.Color("model:N", title=None, sort=None))
    x = alt.X("value:Q", title=unit, scale=alt.Scale(zero=False, nice=True))
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(style="interval")
        .encode(x=alt.X("low:Q", title=unit), x2="high:Q"),
        controls.transform_filter("isValid(datum.control)")
        .mark_tick(style="surface")
        .encode(x=alt.X("control:Q", title=unit)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    return specification(alt.layer(*layers).properties(height=row_height(len(models))))


def _along_layers(rows: Sequence[Row], beside: Controls, unit: str) -> dict[str, Any]:
    """Values from layer to layer: a line a model (and language), the first control dashed."""
    several = len({row["language"] for row in rows}) > 1
    records = [
        _record(row, row["layer"], beside)
        | ({"model": f"{plain_words(row['shown'])}, {plain_words(row['language'])}"} if several else {})
        for row in sorted(rows, key=lambda row: row["layer"])
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("name:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1)),
        tooltip=_tooltip(unit, "Q"),
    )
    controls = base.encode(detail="model:N")
    if len({one["model"] for one in records}) > 1:
        base = base.encode(color=alt.Color("model:N", title=None, sort=None))
    y = alt.Y("value:Q", title=unit, scale=alt.Scale(zero=False))
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_area(style="band")
        .encode(y=alt.Y("low:Q", title=unit), y2="high:Q"),
        base.mark_line(style="trend").encode(y=y),
        controls.transform_filter("isValid(datum.control)")
        .mark_line(style="surface", strokeDash=[4, 3])
        .encode(y=alt.Y("control:Q", title=unit)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(y=y),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(y=y),
    ]
    return specification(alt.layer(*layers).properties(height=240))


TABLE_ROWS = 2000
"""Rows that are embedded; the file of scores has all of them."""


DIMENSIONS = 8
"""Dimensions that have a column each; further ones share one."""


CONTROL_WORDS = (
    "A control is what the same question gives without the model, or without its training: a tick or a "
    "dashed line in the chart, and beside its number in the table."
)


_TEXT, _WHOLE = Format(missing=""), Count(missing="")


def table(run: RunData, rows: pl.DataFrame) -> Table:
    """A row a number; a control that answers to no number of the model is a row of its own.

    Args:
        run: The run.
        rows: Scores of one lens, with ``shown``.
    """
    listed = rows.to_dicts()
    beside = controls_of(listed)
    places = {place_of(row) for row in listed if row["control"] is None}
    kept = [row for row in listed if row["control"] is None or place_of(row) not in places]
    control = dataclasses.replace(CONTROL, value=_controlled(beside), format=_TEXT)
    return Table(
        summary=_summary(kept),
        columns=[
            *_qualifying(run, kept),
            *_named(kept),
            *scored("Value", digits=digits_of),
            *([control] if beside else []),
        ],
        rows=kept[:TABLE_ROWS],
    )


def _summary(rows: Sequence[Row]) -> str:
    if len(rows) <= TABLE_ROWS:
        return f"Every number: {len(rows):,} row{'s' * (len(rows) != 1)}"
    return f"The first {TABLE_ROWS:,} of {len(rows):,} numbers; scores.parquet has all of them"


def _controlled(beside: Controls) -> Callable[[Row], str]:
    """What the controls of a number give, or of a control's own row which one it is."""

    def controls(row: Row) -> str:
        if row["control"] is not None:
            return f"of {plain_words(row['control'])}"
        return "; ".join(control_words(one) for one in answering(beside, row))

    return controls


def _qualifying(run: RunData, rows: Sequence[Row]) -> list[Column]:
    """Columns of the scores that tell these numbers apart; the metric always."""
    several = {"shown": run.several, "language": len(run.languages) > 1, "metric": True}
    found: list[Column] = []
    for name in ("metric", "shown", "language", *(one for one in QUALIFIERS if one != "metric"), *PLACES):
        values = {row[name] for row in rows}
        if several.get(
            name, bool(values - {None, ""}) and (len(values) > 1 or name in ("task", "layer", "head"))
        ):
            title = "Model" if name == "shown" else plain_words(name).capitalize()
            whole = any(isinstance(value, int) for value in values)
            found.append(
                Column(title=title, value=name if whole else _plain(name), format=_WHOLE if whole else _TEXT)
            )
    return found


def _plain(name: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[name] is None else plain_words(row[name])


def _named(rows: Sequence[Row]) -> list[Column]:
    """A column a dimension; those beyond `DIMENSIONS` share the last one."""
    names = list(dict.fromkeys(one["name"] for row in rows for one in row["dimensions"]))
    taken = {"metric", "model", "language", *QUALIFIERS, *PLACES, "value", "n", "clusters", "control"}
    found: list[Column] = []
    for place, name in enumerate(names[:DIMENSIONS]):
        heading = plain_words(name)
        # Headings are told apart by their text.
        heading = heading if name not in taken and heading else f"{heading} (dimension {place + 1})"
        taken.add(name)
        title = heading[:1].upper() + heading[1:]
        found.append(Column(title=title, value=_dimension(name), format=_TEXT, order=_order(name)))
    if rest := names[DIMENSIONS:]:
        found.append(Column(title="Further dimensions", value=_rest(rest), format=_TEXT))
    return found


def _value(row: Row, name: str) -> str:
    return next((one["value"] for one in row["dimensions"] if one["name"] == name), "")


def _dimension(name: str) -> Callable[[Row], str]:
    return lambda row: plain_words(_value(row, name))


def _order(name: str) -> Callable[[Row], float | None]:
    """The number that a value is, so that 10 comes after 9."""

    def order(row: Row) -> float | None:
        text = _value(row, name)
        return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None

    return order


def _rest(names: Sequence[str]) -> Callable[[Row], str]:
    def rest(row: Row) -> str:
        held = (one for one in row["dimensions"] if one["name"] in names)
        return ", ".join(f"{plain_words(one['name'])} {plain_words(one['value'])}" for one in held)

    return rest


PREFIX = "numbers_"
"""Before the name of a lens: the public name of its section."""


_TILES = 5


@dataclass(frozen=True, slots=True)
class Numbers:
    """A chart of the number that speaks for a lens, and a table of all that it scored."""

    lens: str
    order: int = 1000

    @property
    def title(self) -> str:
        """The lens by name."""
        return f"{plain_words(self.lens).capitalize()}: every number"

    @property
    def caption(self) -> str:
        """How to read any number."""
        return (
            "Dots are values with their 95 % intervals; they are hollow where too little independent code is "
            f"behind them for a verdict. {CONTROL_WORDS}"
        )

    def draw(self, run: RunData) -> Figure | None:
        """A figure; None where the lens has no number."""
        rows = rows_of(run, self.lens)
        if rows.is_empty():
            return None
        found = findings(rows)
        shown, notes = charts(run, self.lens, rows, found)
        lines = [f"{text}." for text in _sentences(run, found)]
        return Figure(
            lead=f"{plain_words(self.lens).capitalize()}, {lines[0]}" if lines else "",
            answer="\n".join(lines),
            charts=shown,
            table=table(run, rows),
            notes=[*notes, *_standing(rows)],
        )


def rows_of(run: RunData, lens: str) -> pl.DataFrame:
    """The numbers of a lens, those of controls included, with the name of each model as shown."""
    names = {model.name: model.label for model in run.models}
    held = run.every_score.filter(pl.col("lens") == lens)
    return held.with_columns(shown=pl.col("model").replace(names))


def top(run: RunData, lens: str) -> Top | None:
    """The headline of a page on which no other finding stands; None where the lens has no number."""
    found = findings(rows_of(run, lens))
    if not found:
        return None
    first = found[0]
    return Top(
        headline=legible(_headline(run, found)),
        template="templates/title.html.j2",
        context={
            "lines": [legible(text) for text in _sentences(run, found)],
            "corpora": list(
                dict.fromkeys(str(entry.get("name")) for entry in run.summary.get("corpus") or ())
            ),
            "lens": legible(plain_words(lens)),
        },
        tiles=_tiles(run, lens, first) if len(found) == 1 else (),
        intervals=_intervals(rows_of(run, lens)),
    )


def _headline(run: RunData, found: list[Finding]) -> str:
    first = found[0].row
    what = metric_words(first)
    what = f"{what[:1].upper()}{what[1:]}"
    if len(found) > 3:
        models, languages = (len({one.row[name] for one in found}) for name in ("model", "language"))
        return f"{what} of {models} model{'s' * (models > 1)} on {languages} language{'s' * (languages > 1)}"
    if len(found) > 1:
        return f"{what}: {'; '.join(f'{_who(run, one)} at {_headline_value(one)}' for one in found)}"
    on = f" on {spelled(plain_words(first['language']))}" if first["language"] else ""
    return f"{what} of {_model_label(run, first['model'])}{on}: {_headline_value(found[0])}"


def _who(run: RunData, finding: Finding) -> str:
    row = finding.row
    parts = [_model_label(run, row["model"])] if run.several else []
    return ", ".join([*parts, *([spelled(plain_words(row["language"]))] if len(run.languages) > 1 else [])])


def _headline_value(finding: Finding) -> str:
    row = finding.row
    if finding.among == 1:
        return number(row["value"], digits_of(row))
    lowest = min(finding.values, key=lambda value: value["value"])
    if finding.tied == finding.among:
        return f"{finding.among:,} values, none told from the others"
    return f"{number(lowest['value'], digits_of(lowest))} to {number(row['value'], digits_of(row))}"


def _model_label(run: RunData, model: str) -> str:
    return plain_words(next((one.label for one in run.models if one.name == model), model))


def _sentences(run: RunData, found: list[Finding]) -> list[str]:
    return [sentence(one, _model_label(run, one.row["model"])) for one in found]


def _tiles(run: RunData, lens: str, first: Finding) -> list[Tile]:
    """The overall numbers of the one model and language, that of the headline first."""
    whole = [
        row
        for row in rows_of(run, lens).filter(pl.col("control").is_null()).iter_rows(named=True)
        if not dimension_names(row) and interval(row) != DASH
    ]
    whole.sort(key=lambda row: row["metric"] != first.row["metric"])
    return [
        Tile(
            label=legible(f"{metric_words(row)}{', ' + plain_words(row['task']) if row['task'] else ''}"),
            value=number(row["value"], digits_of(row)),
            interval=interval(row, 1.0, digits_of(row)),
        )
        for row in whole[:_TILES]
    ]


def _intervals(rows: pl.DataFrame) -> str:
    methods = {plain_words(one.partition(",")[0]) for one in rows["ci_method"].drop_nulls().to_list() if one}
    return f"95 %, {', '.join(sorted(methods))}" if methods else ""


def _standing(rows: pl.DataFrame) -> list[str]:
    """How many of its numbers may be called a finding."""
    own = list(rows.filter(pl.col("control").is_null()).iter_rows(named=True))
    firm = sum(verdict_allowed(row) for row in own)
    if firm == len(own):
        return []
    which = "None" if not firm else f"{count(firm)} of them"
    numbers = "number" if len(own) == 1 else "numbers"
    return [
        f"The lens has {count(len(own))} {numbers}. {which} rest{'s' * (firm <= 1)} on enough independent "
        f"code for a verdict: of {'all' if not firm else 'the others'} there is {TOO_LITTLE}, and their "
        "estimates alone are shown."
    ]
