"""The section of a lens that has none of its own: a headline, a chart and a table of all its numbers.

It is made only from the lens's rows of ``scores.parquet``. The chart shows the headline metric, with its
intervals, along the dimension that tells most. The table holds all numbers of the lens, with dimensions as
columns and the controls of each number beside it.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import DASH, count, format_name, legible, number, plural
from sonde.languages import format_language
from sonde.report.charts import mark_estimates, plot_estimates, to_vega_lite
from sonde.report.headlines import describe_headline
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, PageHeader, Plot, SectionPlot, StatTile
from sonde.report.text import lacks_verdict
from sonde.results.headlines import (
    POSITION_COLUMNS,
    QUALIFIER_COLUMNS,
    Controls,
    Headline,
    control_key,
    describe_dimensions,
    dimension_names,
    find_controls,
    find_headlines,
    format_control,
    format_metric,
    group_controls,
)
from sonde.results.tables import CONTROL, Column, Table, score_columns
from sonde.results.text_format import TOO_LITTLE, Count, Format, Row, auto_digits, format_estimate, interval
from sonde.stats.verdict import allows_verdict
from sonde.store.run_folder import slug

SHOWN = 30
"""Values of a dimension that a chart holds; more cannot be read."""


def build_charts(
    run: RunData, lens: str, rows: pl.DataFrame, found: Sequence[Headline]
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
    headline = found[0].row
    same = [*(name for name in QUALIFIER_COLUMNS if name != "chosen"), "side"]
    listed = rows.to_dicts()
    groups: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in listed:
        if row["control"] is None and all(row[name] == headline[name] for name in same):
            groups[dimension_names(row)].append(row)
    names = max(groups, key=lambda one: (_measure_variation(groups[one]), -len(one)))
    chosen, beside = groups[names], group_controls(listed)
    metric = format_metric(headline)
    # Vega compiles titles of axes: letters, figures and blanks alone.
    unit = re.sub(r"[^\w ]+", " ", metric).strip() or "value"
    by = f" by {' and '.join(format_name(name) for name in names)}" if names else ""
    notes: list[str] = []
    if names == ("layer",):
        spec = _plot_layers(chosen, beside, unit)
    else:
        chosen, notes = _limit_values(run, chosen, names)
        spec = _plot_values(run, chosen, names, beside, unit)
    title = f"{metric[:1].upper()}{metric[1:]}{by}"
    return [Chart(name=f"{slug(lens)}-numbers", title=title, spec=spec, wide=True)], notes


def _measure_variation(rows: Sequence[Row]) -> float:
    """How far the values of a dimension lie apart, in widths of their intervals; -1 for one value."""
    if len({describe_dimensions(row) for row in rows}) < 2:
        return -1.0
    widths = [row["ci_high"] - row["ci_low"] for row in rows if None not in (row["ci_low"], row["ci_high"])]
    width = statistics.fmean(widths) if widths else 0.0
    spread = statistics.pstdev(row["value"] for row in rows)
    return spread / width if width > 0 else 0.0


def _label(run: RunData, row: Row, names: Sequence[str]) -> str:
    """What a line of the chart is about: the value alone where one dimension is drawn."""
    words = describe_dimensions(row) if names else "everything"
    if len(names) == 1 and row["dimensions"]:
        words = format_name(row["dimensions"][0]["value"]) or "(empty)"
    return f"{words} \u00b7 {format_name(row['language'])}" if len(run.languages) > 1 else words


def _limit_values(run: RunData, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[str]]:
    """The rows of the values with most observations, and what to say of the others."""
    observations: Counter[str] = Counter()
    for row in rows:
        observations[_label(run, row, names)] += row["n"] or 0
    if len(observations) <= SHOWN:
        return list(rows), []
    kept = dict(observations.most_common(SHOWN))
    note = f"The chart shows the {SHOWN} values with the most observations, of {len(observations):,}."
    return [row for row in rows if _label(run, row, names) in kept], [note]


def _to_chart_record(row: Row, name: object, beside: Controls) -> dict[str, Any]:
    controls = find_controls(beside, row)
    return {
        "name": name,
        "model": format_name(row["shown"]),
        "value": row["value"],
        "low": row["ci_low"],
        "high": row["ci_high"],
        "reading": format_estimate(row),
        "count": f"{row['n']:,}",
        "clusters": row["n_clusters"],
        "few": lacks_verdict(row),
        "control": controls[0]["value"] if controls else None,
        "beside": "; ".join(format_control(one) for one in controls) or "none",
    }


def _plot_values(
    run: RunData,
    rows: Sequence[Row],
    names: Sequence[str],
    beside: Controls,
    unit: str,
) -> dict[str, Any]:
    """A line a value of the dimension; models side by side in colours, the first control as a tick."""
    records = [_to_chart_record(row, _label(run, row, names), beside) for row in rows]
    numeric = all(re.fullmatch(r"-?\d{1,9}", str(one["name"])) for one in records)
    # By number where the values are numbers, else from high to low.
    ranked = sorted(records, key=lambda one: int(one["name"]) if numeric else -one["value"])
    return plot_estimates(
        records,
        "name",
        unit,
        [alt.Tooltip("name:N", title=" "), *_list_facts(unit)],
        by="model",
        order=list(dict.fromkeys(one["name"] for one in ranked)),
        share=False,
        marks={"control": "surface"},
    )


def _list_facts(unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("model:N"),
        alt.Tooltip("reading:N", title=unit),
        alt.Tooltip("beside:N", title="control"),
        alt.Tooltip("count:N", title="n"),
        alt.Tooltip("clusters:Q"),
    ]


def _plot_layers(rows: Sequence[Row], beside: Controls, unit: str) -> dict[str, Any]:
    """Values from layer to layer: a line a model (and language), the first control dashed."""
    several = len({row["language"] for row in rows}) > 1
    records = [
        _to_chart_record(row, row["layer"], beside)
        | ({"model": f"{format_name(row['shown'])}, {format_name(row['language'])}"} if several else {})
        for row in sorted(rows, key=lambda row: row["layer"])
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("name:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1)),
        tooltip=[alt.Tooltip("name:Q", title=" "), *_list_facts(unit)],
    )
    controls = base.transform_filter("isValid(datum.control)").mark_line(style="surface", strokeDash=[4, 3])
    if len({one["model"] for one in records}) > 1:
        base = base.encode(color=alt.Color("model:N", title=None, sort=None))
    known = base.transform_filter("isValid(datum.low)").mark_area(style="band")
    scale = alt.Scale(zero=False)
    _, *dots = mark_estimates(base, unit, channel="y", scale=scale)
    return to_vega_lite(
        alt.layer(
            known.encode(y=alt.Y("low:Q", title=unit), y2="high:Q"),
            base.mark_line(style="trend").encode(y=alt.Y("value:Q", title=unit, scale=scale)),
            controls.encode(detail="model:N", y=alt.Y("control:Q", title=unit)),
            *dots,
        ).properties(height=240)
    )


TABLE_ROWS = 2000
"""Rows that are embedded; the file of scores has all of them."""


DIMENSIONS = 8
"""Dimensions that have a column each; further ones share one."""


CONTROL_WORDS = (
    "A control is what the same question gives without the model, or without its training: a tick or a "
    "dashed line in the chart, and beside its number in the table."
)


_TEXT, _WHOLE = Format(missing=""), Count(missing="")


def build_table(run: RunData, rows: pl.DataFrame) -> Table:
    """A row a number; a control that answers to no number of the model is a row of its own.

    Args:
        run: The run.
        rows: Scores of one lens, with ``shown``.
    """
    listed = rows.to_dicts()
    beside = group_controls(listed)
    places = {control_key(row) for row in listed if row["control"] is None}
    kept = [row for row in listed if row["control"] is None or control_key(row) not in places]

    def controls(row: Row) -> str:
        """What the controls of a number give, or of a control's own row which one it is."""
        if row["control"] is not None:
            return f"of {format_name(row['control'])}"
        return "; ".join(format_control(one) for one in find_controls(beside, row))

    return Table(
        summary=(
            f"Every number: {plural(len(kept), 'row')}"
            if len(kept) <= TABLE_ROWS
            else f"The first {TABLE_ROWS:,} of {len(kept):,} numbers; scores.parquet has all of them"
        ),
        columns=[
            *_qualifier_columns(run, kept),
            *_dimension_columns(kept),
            *score_columns("Value", digits=auto_digits),
            *([dataclasses.replace(CONTROL, value=controls, format=_TEXT)] if beside else []),
        ],
        rows=kept[:TABLE_ROWS],
    )


def _qualifier_columns(run: RunData, rows: Sequence[Row]) -> Iterator[Column]:
    """Columns of the scores that tell these numbers apart; the metric always."""
    several = {"shown": run.several, "language": len(run.languages) > 1, "metric": True}
    qualifiers = [name for name in QUALIFIER_COLUMNS if name != "metric"]
    for name in ("metric", "shown", "language", *qualifiers, *POSITION_COLUMNS):
        values = {row[name] for row in rows}
        tells = bool(values - {None, ""}) and (len(values) > 1 or name in ("task", "layer", "head"))
        if not several.get(name, tells):
            continue
        title = "Model" if name == "shown" else format_name(name).capitalize()
        if any(isinstance(value, int) for value in values):
            yield Column(title=title, value=name, format=_WHOLE)
        else:
            yield Column(
                title=title,
                value=lambda row, name=name: None if row[name] is None else format_name(row[name]),
                format=_TEXT,
            )


def _dimension_columns(rows: Sequence[Row]) -> Iterator[Column]:
    """A column a dimension; those beyond `DIMENSIONS` share the last one."""
    names = list(dict.fromkeys(one["name"] for row in rows for one in row["dimensions"]))
    # Headings are told apart by their text.
    taken = {"metric", "model", "language", "value", "n", "clusters", "control"}
    taken |= {*QUALIFIER_COLUMNS, *POSITION_COLUMNS}
    for place, name in enumerate(names[:DIMENSIONS]):
        heading = format_name(name)
        heading = f"{heading} (dimension {place + 1})" if name in taken or not heading else heading
        taken.add(name)
        yield Column(
            title=heading[:1].upper() + heading[1:],
            value=lambda row, name=name: format_name(_get_dimensions(row).get(name, "")),
            format=_TEXT,
            order=lambda row, name=name: _to_number(_get_dimensions(row).get(name, "")),
        )
    if rest := names[DIMENSIONS:]:
        yield Column(
            title="Further dimensions",
            value=lambda row: ", ".join(
                f"{format_name(name)} {format_name(value)}"
                for name, value in _get_dimensions(row).items()
                if name in rest
            ),
            format=_TEXT,
        )


def _get_dimensions(row: Row) -> dict[str, str]:
    return {one["name"]: one["value"] for one in row["dimensions"]}


def _to_number(text: str) -> float | None:
    """The number that a value is, so that 10 comes after 9."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


PREFIX = "numbers_"
"""Before the name of a lens: the public name of its section."""


_TILES = 5


def build_section(lens: str) -> Plot:
    """Declare the section of a lens: a chart of its headline metric, and a table of all that it scored."""
    name = format_name(lens).capitalize()
    return SectionPlot(
        title=f"{name}: every number",
        lens=lens,
        order=1000,
        caption=(
            "Dots are values with their 95 % intervals; they are hollow where too little independent code is "
            f"behind them for a verdict. {CONTROL_WORDS}"
        ),
        select=lambda run: list_numbers(run, lens),
        figure=_draw,
    )


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    found = find_headlines(rows)
    lens = rows["lens"][0]
    charts, notes = build_charts(run, lens, rows, found)
    lines = [f"{text}." for text in _list_sentences(run, found)]
    return Figure(
        lead=f"{format_name(lens).capitalize()}, {lines[0]}" if lines else "",
        answer="\n".join(lines),
        charts=charts,
        table=build_table(run, rows),
        notes=[*notes, *_count_verdicts(rows)],
    )


def list_numbers(run: RunData, lens: str) -> pl.DataFrame:
    """The numbers of a lens, those of controls included, with the name of each model as shown."""
    names = {model.name: model.label for model in run.models}
    held = run.every_score.filter(pl.col("lens") == lens)
    return held.with_columns(shown=pl.col("model").replace(names))


def build_page_header(run: RunData, lens: str) -> PageHeader | None:
    """The headline of a page on which no other finding stands; None where the lens has no number."""
    rows = list_numbers(run, lens)
    found = find_headlines(rows)
    if not found:
        return None
    methods = {format_name(one.partition(",")[0]) for one in rows["ci_method"].drop_nulls() if one}
    return PageHeader(
        headline=legible(_format_headline(run, found)),
        template="templates/title.html.j2",
        context={
            "lines": [legible(text) for text in _list_sentences(run, found)],
            "corpora": list(
                dict.fromkeys(str(entry.get("name")) for entry in run.summary.get("corpus") or ())
            ),
            "lens": legible(format_name(lens)),
        },
        tiles=_tiles(rows, found[0]) if len(found) == 1 else (),
        intervals=f"95 %, {', '.join(sorted(methods))}" if methods else "",
    )


def _format_headline(run: RunData, found: list[Headline]) -> str:
    first = found[0].row
    what = format_metric(first)
    what = f"{what[:1].upper()}{what[1:]}"
    if len(found) > 3:
        models, languages = (len({one.row[name] for one in found}) for name in ("model", "language"))
        return f"{what} of {plural(models, 'model')} on {plural(languages, 'language')}"
    said: list[str] = []
    for one in found:
        row = one.row
        lowest = min(one.values, key=lambda value: value["value"])
        if one.n_values == 1:
            value = number(row["value"], auto_digits(row))
        elif one.n_tied == one.n_values:
            value = f"{one.n_values:,} values, none told from the others"
        else:
            value = (
                f"{number(lowest['value'], auto_digits(lowest))} to {number(row['value'], auto_digits(row))}"
            )
        of = [_model_label(run, row["model"])] if run.several else []
        of += [format_language(format_name(row["language"]))] if len(run.languages) > 1 else []
        said.append(f"{', '.join(of)} at {value}" if len(found) > 1 else value)
    if len(found) > 1:
        return f"{what}: {'; '.join(said)}"
    on = f" on {format_language(format_name(first['language']))}" if first["language"] else ""
    return f"{what} of {_model_label(run, first['model'])}{on}: {said[0]}"


def _model_label(run: RunData, model: str) -> str:
    return format_name(next((one.label for one in run.models if one.name == model), model))


def _list_sentences(run: RunData, found: list[Headline]) -> list[str]:
    return [describe_headline(one, _model_label(run, one.row["model"])) for one in found]


def _tiles(rows: pl.DataFrame, first: Headline) -> list[StatTile]:
    """The overall numbers of the one model and language, that of the headline first."""
    whole = [
        row
        for row in rows.filter(pl.col("control").is_null()).iter_rows(named=True)
        if not dimension_names(row) and interval(row) != DASH
    ]
    whole.sort(key=lambda row: row["metric"] != first.row["metric"])
    return [
        StatTile(
            label=legible(f"{format_metric(row)}{', ' + format_name(row['task']) if row['task'] else ''}"),
            value=number(row["value"], auto_digits(row)),
            interval=interval(row, 1.0, auto_digits(row)),
        )
        for row in whole[:_TILES]
    ]


def _count_verdicts(rows: pl.DataFrame) -> list[str]:
    """How many of its numbers may be called a finding."""
    own = list(rows.filter(pl.col("control").is_null()).iter_rows(named=True))
    firm = sum(allows_verdict(row) for row in own)
    if firm == len(own):
        return []
    which = "None" if not firm else f"{count(firm)} of them"
    numbers = "number" if len(own) == 1 else "numbers"
    return [
        f"The lens has {count(len(own))} {numbers}. {which} rest{'s' * (firm <= 1)} on enough independent "
        f"code for a verdict: of {'all' if not firm else 'the others'} there is {TOO_LITTLE}, and their "
        "estimates alone are shown."
    ]
