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
from sonde.report.charts import list_tooltips, mark_estimates, plot_estimates, to_vega_lite
from sonde.report.headlines import describe_headline
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, PageHeader, SectionPlot, StatTile
from sonde.report.text import SEPARATE_INTERVALS, lacks_verdict
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

MAX_VALUES = 30
"""Values of a dimension that a chart holds; more cannot be read."""


def build_charts(
    run: RunData, lens: str, rows: pl.DataFrame, headlines: Sequence[Headline]
) -> tuple[list[Chart], list[str]]:
    """Build the chart, and what a reader has to know of what it leaves out; none where there is no number.

    Args:
        run: The run.
        lens: Public name of the lens.
        rows: Its scores with ``shown``, those of controls included.
        headlines: What speaks for it.
    """
    if not headlines:
        return [], []
    headline = headlines[0].row
    qualifiers = [*(name for name in QUALIFIER_COLUMNS if name != "chosen"), "side"]
    scores = rows.to_dicts()
    groups: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in scores:
        if row["control"] is None and all(row[name] == headline[name] for name in qualifiers):
            groups[dimension_names(row)].append(row)
    names = max(groups, key=lambda names: (_measure_variation(groups[names]), -len(names)))
    chart_rows, controls = groups[names], group_controls(scores)
    metric = format_metric(headline)
    # Vega compiles titles of axes: letters, figures and blanks alone.
    unit = re.sub(r"[^\w ]+", " ", metric).strip() or "value"
    dimensions = f" by {' and '.join(format_name(name) for name in names)}" if names else ""
    notes: list[str] = []
    if names == ("layer",):
        spec = _plot_layers(chart_rows, controls, unit)
    else:
        chart_rows, notes = _limit_values(run, chart_rows, names)
        spec = _plot_values(run, chart_rows, names, controls, unit)
    title = f"{metric[:1].upper()}{metric[1:]}{dimensions}"
    return [Chart(name=f"{slug(lens)}-numbers", title=title, spec=spec, wide=True)], notes


def _measure_variation(rows: Sequence[Row]) -> float:
    """Measure how far the values of a dimension lie apart, in widths of their intervals; -1 for one value."""
    if len({describe_dimensions(row) for row in rows}) < 2:
        return -1.0
    widths = [row["ci_high"] - row["ci_low"] for row in rows if None not in (row["ci_low"], row["ci_high"])]
    width = statistics.fmean(widths) if widths else 0.0
    deviation = statistics.pstdev(row["value"] for row in rows)
    return deviation / width if width > 0 else 0.0


def _label(run: RunData, row: Row, names: Sequence[str]) -> str:
    """Label a line of the chart: the value by itself where one dimension is drawn."""
    words = describe_dimensions(row) if names else "everything"
    if len(names) == 1 and row["dimensions"]:
        words = format_name(row["dimensions"][0]["value"]) or "(empty)"
    return f"{words} \u00b7 {format_name(row['language'])}" if len(run.languages) > 1 else words


def _limit_values(run: RunData, rows: Sequence[Row], names: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Select the rows of the values with most observations, and say so of the others."""
    observations: Counter[str] = Counter()
    for row in rows:
        observations[_label(run, row, names)] += row["n"] or 0
    if len(observations) <= MAX_VALUES:
        return list(rows), []
    labels = dict(observations.most_common(MAX_VALUES))
    note = f"The chart shows the {MAX_VALUES} values with the most observations, of {len(observations):,}."
    return [row for row in rows if _label(run, row, names) in labels], [note]


def _to_chart_record(row: Row, name: object, controls: Controls) -> dict[str, Any]:
    row_controls = find_controls(controls, row)
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
        "control": row_controls[0]["value"] if row_controls else None,
        "controls": "; ".join(map(format_control, row_controls)) or "none",
    }


def _plot_values(
    run: RunData, rows: Sequence[Row], names: Sequence[str], controls: Controls, unit: str
) -> dict[str, Any]:
    """Plot a line a value of the dimension; models side by side in colours, the first control as a tick."""
    records = [_to_chart_record(row, _label(run, row, names), controls) for row in rows]
    is_numeric = all(re.fullmatch(r"-?\d{1,9}", str(record["name"])) for record in records)
    # By number where the values are numbers, else from high to low.
    records.sort(key=lambda record: int(record["name"]) if is_numeric else -record["value"])
    return plot_estimates(
        records,
        "name",
        unit,
        {"name:N": " ", **_list_facts(unit)},
        by="model",
        order=list(dict.fromkeys(record["name"] for record in records)),
        share=False,
        marks={"control": "surface"},
    )


def _list_facts(unit: str) -> dict[str, str]:
    facts = {"model:N": "", "reading:N": unit, "controls:N": "control"}
    return {**facts, "count:N": "observations", "clusters:Q": ""}


def _plot_layers(rows: Sequence[Row], controls: Controls, unit: str) -> dict[str, Any]:
    """Plot values from layer to layer: a line per model (and language), the first control dashed."""
    show_language = len({row["language"] for row in rows}) > 1
    records = [
        _to_chart_record(row, row["layer"], controls)
        | ({"model": f"{format_name(row['shown'])}, {format_name(row['language'])}"} if show_language else {})
        for row in sorted(rows, key=lambda row: row["layer"])
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("name:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1)),
        tooltip=list_tooltips({"name:Q": " ", **_list_facts(unit)}),
    )
    line = base.transform_filter("isValid(datum.control)").mark_line(style="surface", strokeDash=[4, 3])
    if len({record["model"] for record in records}) > 1:
        base = base.encode(color=alt.Color("model:N", title=None, sort=None))
    band = base.transform_filter("isValid(datum.low)").mark_area(style="band")
    scale = alt.Scale(zero=False)
    _, *dots = mark_estimates(base, unit, channel="y", scale=scale)
    return to_vega_lite(
        alt.layer(
            band.encode(y=alt.Y("low:Q", title=unit), y2="high:Q"),
            base.mark_line(style="trend").encode(y=alt.Y("value:Q", title=unit, scale=scale)),
            line.encode(detail="model:N", y=alt.Y("control:Q", title=unit)),
            *dots,
        ).properties(height=240)
    )


TABLE_ROWS = 2000
"""Rows that are embedded; the file of scores has all of them."""


DIMENSIONS = 8
"""Dimensions that have a column each; further ones share one."""


_TEXT, _INTEGER = Format(missing=""), Count(missing="")


def build_table(run: RunData, rows: pl.DataFrame) -> Table:
    """Build a row per number; a control that answers to no number of the model is a row of its own.

    Args:
        run: The run.
        rows: Scores of one lens, with ``shown``.
    """
    scores = rows.to_dicts()
    controls = group_controls(scores)
    model_keys = {control_key(row) for row in scores if row["control"] is None}
    records = [row for row in scores if row["control"] is None or control_key(row) not in model_keys]

    def format_controls(row: Row) -> str:
        """Format the controls of a number, or of a control's own row which one it is."""
        if row["control"] is not None:
            return f"of {format_name(row['control'])}"
        return "; ".join(map(format_control, find_controls(controls, row)))

    return Table(
        summary=(
            f"Every number: {plural(len(records), 'row')}"
            if len(records) <= TABLE_ROWS
            else f"The first {TABLE_ROWS:,} of {len(records):,} numbers; scores.parquet has all of them"
        ),
        columns=[
            *_qualifier_columns(run, records),
            *_dimension_columns(records),
            *score_columns("Value", digits=auto_digits, n="Observations"),
            *([dataclasses.replace(CONTROL, value=format_controls, format=_TEXT)] if controls else []),
        ],
        rows=records[:TABLE_ROWS],
    )


def _qualifier_columns(run: RunData, rows: Sequence[Row]) -> Iterator[Column]:
    """Yield columns of the scores that tell these numbers apart; the metric always."""
    visible = {"shown": run.several, "language": len(run.languages) > 1, "metric": True}
    qualifiers = [name for name in QUALIFIER_COLUMNS if name != "metric"]
    for name in ("metric", "shown", "language", *qualifiers, *POSITION_COLUMNS):
        values = {row[name] for row in rows}
        is_informative = bool(values - {None, ""}) and (len(values) > 1 or name in ("task", "layer", "head"))
        if not visible.get(name, is_informative):
            continue
        title = "Model" if name == "shown" else format_name(name).capitalize()
        if any(isinstance(value, int) for value in values):
            yield Column(title=title, value=name, format=_INTEGER)
        else:
            yield Column(
                title=title,
                value=lambda row, name=name: None if row[name] is None else format_name(row[name]),
                format=_TEXT,
            )


def _dimension_columns(rows: Sequence[Row]) -> Iterator[Column]:
    """Yield a column a dimension; those beyond `DIMENSIONS` share the last one."""
    names = list(dict.fromkeys(dimension["name"] for row in rows for dimension in row["dimensions"]))
    # Headings are told apart by their text.
    headings = {"metric", "model", "language", "value", "observations", "n", "clusters", "control"}
    headings |= {*QUALIFIER_COLUMNS, *POSITION_COLUMNS}
    for index, name in enumerate(names[:DIMENSIONS], start=1):
        heading = format_name(name)
        heading = f"{heading} (dimension {index})" if name in headings or not heading else heading
        headings.add(name)
        yield Column(
            title=heading[:1].upper() + heading[1:],
            value=lambda row, name=name: format_name(_get_dimensions(row).get(name, "")),
            format=_TEXT,
            order=lambda row, name=name: _to_number(_get_dimensions(row).get(name, "")),
        )
    if further_names := names[DIMENSIONS:]:
        yield Column(
            title="Further dimensions",
            value=lambda row: ", ".join(
                f"{format_name(name)} {format_name(value)}"
                for name, value in _get_dimensions(row).items()
                if name in further_names
            ),
            format=_TEXT,
        )


def _get_dimensions(row: Row) -> dict[str, str]:
    return {dimension["name"]: dimension["value"] for dimension in row["dimensions"]}


def _to_number(text: str) -> float | None:
    """Convert a value that is a number, so that 10 comes after 9."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


PREFIX = "numbers_"
"""Before the name of a lens: the public name of its section."""


_TILES = 5


def build_section(lens: str) -> SectionPlot[pl.DataFrame]:
    """Declare the section of a lens: a chart of its headline metric, and a table of all that it scored."""
    return SectionPlot(
        title=f"{format_name(lens).capitalize()}: every number",
        lens=lens,
        order=1000,
        caption=(
            "Dots are values with their 95 % intervals; hollow dots rest on too little independent code for "
            "a verdict. A control answers the same question without the model, or without its training: a "
            "tick or a dashed line in the chart, a column in the table."
        ),
        select=lambda run: read_numbers(run, lens),
        figure=_draw,
    )


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    headlines = find_headlines(rows)
    lens = rows["lens"][0]
    charts, notes = build_charts(run, lens, rows, headlines)
    lines = [f"{text}." for text in _list_sentences(run, headlines)]
    return Figure(
        lead=f"{format_name(lens).capitalize()}, {lines[0]}" if lines else "",
        answer="\n".join(lines),
        charts=charts,
        table=build_table(run, rows),
        notes=[*notes, *_count_verdicts(rows)],
    )


def read_numbers(run: RunData, lens: str) -> pl.DataFrame:
    """Read the numbers of a lens, those of controls included, with the name of each model as shown."""
    return run.every_score.filter(pl.col("lens") == lens).with_columns(
        shown=pl.col("model").replace(run.labels)
    )


def build_page_header(run: RunData, lens: str) -> PageHeader | None:
    """Build the headline of a page on which no other finding stands; None if the lens has no number."""
    rows = read_numbers(run, lens)
    headlines = find_headlines(rows)
    if not headlines:
        return None
    methods = {format_name(method.partition(",")[0]) for method in rows["ci_method"].drop_nulls() if method}
    corpora = dict.fromkeys(str(entry.get("name")) for entry in run.summary.get("corpus") or ())
    location = f" on {' and '.join(corpora)}" if corpora else ""
    source = f"Measured by the lens {legible(format_name(lens))}{location}."
    lines = [f"{legible(text)}." for text in _list_sentences(run, headlines)]
    is_single = len(lines) == 1
    return PageHeader(
        headline=legible(_format_headline(run, headlines)),
        lines=[f"{lines[0]} {source}"] if is_single else lines,
        note="" if is_single else f"{SEPARATE_INTERVALS} {source}",
        tiles=_build_tiles(rows, headlines[0]) if is_single else (),
        intervals=f"95 %, {', '.join(sorted(methods))}" if methods else "",
    )


def _format_headline(run: RunData, headlines: list[Headline]) -> str:
    first = headlines[0].row
    metric = format_metric(first)
    metric = f"{metric[:1].upper()}{metric[1:]}"
    if len(headlines) > 3:
        models, languages = (
            len({headline.row[name] for headline in headlines}) for name in ("model", "language")
        )
        return f"{metric} of {plural(models, 'model')} on {plural(languages, 'language')}"
    if len(headlines) == 1:
        language = f" on {format_language(format_name(first['language']))}" if first["language"] else ""
        return f"{metric} of {_model_label(run, first['model'])}{language}: {_format_value(headlines[0])}"
    texts: list[str] = []
    for headline in headlines:
        subject = [_model_label(run, headline.row["model"])] if run.several else []
        subject += [format_language(format_name(headline.row["language"]))] if len(run.languages) > 1 else []
        texts.append(f"{', '.join(subject)} at {_format_value(headline)}")
    return f"{metric}: {'; '.join(texts)}"


def _format_value(headline: Headline) -> str:
    """Format the number of a headline, or the range of several values."""
    if headline.n_values > 1 and headline.n_tied == headline.n_values:
        return f"{headline.n_values:,} values, none told from the others"
    lowest = min(headline.values, key=lambda value: value["value"])
    rows = (headline.row,) if headline.n_values == 1 else (lowest, headline.row)
    return " to ".join(number(row["value"], auto_digits(row)) for row in rows)


def _model_label(run: RunData, name: str) -> str:
    return format_name(next((model.label for model in run.models if model.name == name), name))


def _list_sentences(run: RunData, headlines: list[Headline]) -> list[str]:
    return [describe_headline(headline, _model_label(run, headline.row["model"])) for headline in headlines]


def _build_tiles(rows: pl.DataFrame, headline: Headline) -> list[StatTile]:
    """Build tiles of the overall numbers of the one model and language, that of the headline first."""
    overall = [
        row
        for row in rows.filter(pl.col("control").is_null()).iter_rows(named=True)
        if not dimension_names(row) and interval(row) != DASH
    ]
    overall.sort(key=lambda row: row["metric"] != headline.row["metric"])
    return [
        StatTile(
            label=legible(f"{format_metric(row)}{', ' + format_name(row['task']) if row['task'] else ''}"),
            value=number(row["value"], auto_digits(row)),
            interval=interval(row, 1.0, auto_digits(row)),
        )
        for row in overall[:_TILES]
    ]


def _count_verdicts(rows: pl.DataFrame) -> list[str]:
    """Count the numbers of a lens that may be called a finding, in a sentence if not all may."""
    scores = rows.filter(pl.col("control").is_null()).to_dicts()
    n_firm = sum(map(allows_verdict, scores))
    if n_firm == len(scores):
        return []
    return [
        f"The lens has {plural(len(scores), 'number')}. {f'{count(n_firm)} of them' if n_firm else 'None'} "
        f"rest{'s' * (n_firm <= 1)} on enough independent code for a verdict: of "
        f"{'the others' if n_firm else 'all'} there is {TOO_LITTLE}, and their estimates alone are shown."
    ]
