"""The report of a comparison: improvements, losses, and differences that were not found.

The sections are an overview, the changes by lens, and what could not be compared. A series of checkpoints
adds sections on how numbers grow, layer by layer and construct by construct. ``comparison.html`` is one file
that needs no network, made from the finished files of the comparison. The report of a run with several models
contains the run's own comparison, read back by `build_run_comparison`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from sonde.base.errors import InputError
from sonde.base.formatting import format_name, plural
from sonde.comparison.differences import WITHIN_PRECISION
from sonde.comparison.summary import (
    add_text_columns,
    count_outcomes,
    difference_unit,
    differences_table,
    display_scale,
    find_crossings,
    format_counts,
    select_outcome,
    select_overview,
)
from sonde.report.charts import plot_differences as difference_chart
from sonde.report.charts import to_vega_lite
from sonde.report.export import render_template
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.text import format_bibtex, sanitise_figure
from sonde.results.schema import SELECTION, dimension_value, has_dimension_names, scan_files
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT, Count, Number, format_mark_legend
from sonde.results.units import PLACES_PER_ITEM
from sonde.store.checksums import write_with_receipt
from sonde.store.run_folder import RunDirectory, slug

MAX_CHART_ROWS = 24
"""Maximum number of differences in a chart of one lens, the strongest first."""


_MAX_NULL_RESULTS = 8
"""Number of differences in a chart if none is a finding."""


_CONTEXT_CHARACTERS = 32
"""Characters shown on either side of a span."""


_ONE_WAY = ("better", "worse", "higher", "lower")
"""Outcomes that are findings."""


CITATIONS = ("benjamini1995",)
"""Keys of the papers that pages of comparisons cite."""


TABLE_ROWS = 1000
"""Maximum number of rows of a table of the page; ``comparison.parquet`` has all of them."""


CAPTION = (
    "Each dot is a difference on the same items: the model's number minus that of the model it is compared "
    "with, with its 95 % interval. Difficulty that both models share cancels. Hollow dots rest on too little "
    "for a verdict. A number is called better or worse if its p-value, adjusted over all comparisons, is "
    "below 0.05 and the difference is at least the smallest that matters."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonData:
    """Files of a finished comparison.

    Attributes:
        differences: Rows of ``comparison.parquet``.
        comparisons: Entries of ``comparison.json``, one per pair of models.
        scores_key: Key of the scores of the run whose models are compared; empty if runs are compared.
        changed_items: Rows of ``moved.parquet``; None if no lens has likelihoods by position.
        series: Rows of ``series.parquet``; None without checkpoints of one training.
    """

    differences: pl.DataFrame
    comparisons: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    scores_key: str = ""
    changed_items: pl.DataFrame | None = None
    series: pl.DataFrame | None = None

    @property
    def show_models(self) -> bool:
        """Return whether there are several pairs, whose models are to be named."""
        return len(self.comparisons) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSection:
    """A section of the page: heading, caption and figure."""

    name: str
    title: str
    caption: str
    figure: Figure


def build_comparison_sections(comparison: ComparisonData) -> list[ComparisonSection]:
    """Build the sections, in the order of the page."""
    rows = add_text_columns(comparison.differences)
    sections = [_build_overview(comparison, rows)]
    for (lens,), part in rows.group_by("lens", maintain_order=True):
        for (model,), model_rows in part.group_by("model", maintain_order=True):
            sections.append(
                _build_lens_section(str(lens), str(model) if comparison.show_models else "", model_rows)
            )
    if comparison.changed_items is not None and comparison.changed_items.height:
        sections += _build_changed_items(comparison.changed_items, show_models=comparison.show_models)
    unmatched_scores = [
        {"model": entry["model"]["label"], **scores}
        for entry in comparison.comparisons
        for scores in entry.get("unpaired") or ()
    ]
    if unmatched_scores:
        sections.append(_build_unmatched_section(unmatched_scores))
    return sections


def list_sentences(comparison: ComparisonData) -> Iterator[str]:
    """Yield the counts of outcomes of each pair of models and lens."""
    for row in count_outcomes(comparison.differences):
        model = f"{format_name(row['model'])}, " if comparison.show_models else ""
        yield f"{model}{format_name(row['lens'])}: {format_counts(row)}"


def _build_overview(comparison: ComparisonData, rows: pl.DataFrame) -> ComparisonSection:
    overview = select_overview(rows)
    return ComparisonSection(
        name="compared_overview",
        title="What changed",
        caption="For each lens and task the metric that covers the most data, on the items of both models.",
        figure=Figure(
            answer="\n".join(list_sentences(comparison)),
            charts=list(_build_charts("compared_overview", overview, show_models=comparison.show_models)),
            table=differences_table(
                plural(overview.height, "number"), overview, show_models=comparison.show_models
            ),
        ),
    )


def _build_lens_section(lens: str, model: str, rows: pl.DataFrame) -> ComparisonSection:
    """Build the section of one lens, for one model if there are several."""
    name = f"compared_{lens}_{model}" if model else f"compared_{lens}"
    subject = f"{format_name(lens).capitalize()}{f' of {format_name(model)}' if model else ''}"
    strongest = pl.concat([select_outcome(rows, name) for name in _ONE_WAY])
    findings = strongest.sort("strength", descending=True, nulls_last=True, maintain_order=True)
    null_results = pl.concat([select_outcome(rows, name) for name in ("slight", "undecided", "alike")])
    all_rows = pl.concat([findings, null_results])
    summary = (
        plural(all_rows.height, "number")
        if all_rows.height <= TABLE_ROWS
        else (f"The first {TABLE_ROWS:,} of {all_rows.height:,} numbers; comparison.parquet has all of them")
    )
    chart_rows = findings.head(MAX_CHART_ROWS) if findings.height else null_results.head(_MAX_NULL_RESULTS)
    return ComparisonSection(
        name=slug(name),
        title=f"{subject}: what got better and what got worse",
        caption=CAPTION,
        figure=Figure(
            answer="" if findings.height else _describe_null_results(rows),
            charts=list(_build_charts(name, chart_rows, show_models=False)),
            table=differences_table(summary, all_rows.head(TABLE_ROWS), show_models=False),
        ),
    )


def _describe_null_results(rows: pl.DataFrame) -> str:
    """Describe a lens without a difference that matters: counts, and what its numbers lack for a verdict."""
    (counts,) = count_outcomes(rows)
    reasons = rows.filter(~pl.col("why").is_in(["", WITHIN_PRECISION]))["why"]
    reason = next(iter(reasons.mode().sort()), "")
    if reasons.n_unique() > 1:
        reason = f"most often {reason}"
    return f"Nothing is found to be better or worse: {format_counts(counts, reason)}."


def _build_charts(name: str, rows: pl.DataFrame, *, show_models: bool) -> Iterator[Chart]:
    """Build one chart per unit of the differences."""
    units = pl.Series([difference_unit(row) for row in rows.iter_rows(named=True)], dtype=pl.String)
    for index, ((unit,), part) in enumerate(
        rows.with_columns(unit=units).group_by("unit", maintain_order=True)
    ):
        has_one_metric = part["what"].n_unique() == 1
        records = [_to_chart_record(row, has_one_metric=has_one_metric) for row in part.iter_rows(named=True)]
        frame = pl.DataFrame(records, infer_schema_length=None)
        order = frame["name"].unique(maintain_order=True).to_list()
        title = f"Difference in {unit}" + (", by model" if show_models else "")
        spec = difference_chart(frame, order, str(unit))
        yield Chart(name=slug(f"{name}_{index}"), title=title, spec=spec, wide=True)


def _to_chart_record(row: Mapping[str, Any], *, has_one_metric: bool) -> dict[str, Any]:
    """Convert a difference for a chart, without the name of the number if all have the same."""
    scale = display_scale(row)
    low, high = (None if row[end] is None else row[end] * scale for end in ("ci_low", "ci_high"))
    label = str(row["label"]) if has_one_metric and row["label"] else str(row["what"])
    name = label if has_one_metric or not row["label"] else f"{label}, {row['label']}"
    return {
        "name": name,
        "shown": row["model"],
        "value": row["difference"] * scale,
        "ci_low": low,
        "ci_high": high,
        "ci_method": row["ci_method"],
        "n": row["n"],
        "n_clusters": row["n_clusters"],
        "effective_clusters": row["effective_clusters"],
        "n_eff": None,
        "seeds": row["seeds"],
    }


def _build_changed_items(rows: pl.DataFrame, *, show_models: bool) -> Iterator[ComparisonSection]:
    """Build the sections of the positions and items with the largest changes, by direction."""
    for level, noun, limit in _CHANGED_LEVELS:
        level_rows = rows.filter(pl.col("of") == level)
        for name, words, is_kept in _CHANGE_DIRECTIONS:
            direction_rows = level_rows.filter(is_kept)
            if name == "surer":
                direction_rows = direction_rows.reverse()
            if not direction_rows.height:
                continue
            yield ComparisonSection(
                name=f"compared_moved_{level}_{name}",
                title=f"{noun} of which the model is {words}",
                caption=f"Bits under both models, the largest differences first{limit} "
                "These are the extremes of a distribution, shown as examples; they are no findings.",
                figure=Figure(
                    table=_build_changed_table(
                        plural(direction_rows.height, level), direction_rows, show_models=show_models
                    )
                ),
            )


_CHANGED_LEVELS = (
    (
        "place",
        "Places",
        f", at most {PLACES_PER_ITEM} per item. Between different tokenizers a place is a code token.",
    ),
    ("item", "Items", "."),
)
"""Levels of ``moved.parquet`` with their nouns, and what their captions say of the selection."""


_CHANGE_DIRECTIONS = (
    ("less_sure", "less sure", pl.col("difference") > 0),
    ("surer", "surer", pl.col("difference") < 0),
)


def _build_changed_table(summary: str, rows: pl.DataFrame, *, show_models: bool) -> Table:
    """Build a table of positions or items with their bits under both models side by side."""
    names = {name: rows[name].unique().to_list() for name in ("base", "model")}
    headings = {
        name: f"{format_name(labels[0])}, bits" if len(labels) == 1 else f"{name.capitalize()}, bits"
        for name, labels in names.items()
    }
    return Table(
        summary=summary,
        columns=[
            *([Column(title="Model", value="model")] if show_models else []),
            Column(title="Lens", value="lens"),
            Column(title="Before", value=lambda row: row["before"][-_CONTEXT_CHARACTERS:]),
            Column(title="Text", value="text"),
            Column(title="After", value=lambda row: row["after"][:_CONTEXT_CHARACTERS]),
            Column(title=headings["base"], value="base_bits", format=Number()),
            Column(title=headings["model"], value="bits", format=Number()),
            Column(title="Difference, bits", value="difference", format=Number()),
            Column(title="Where", value=lambda row: f"{row['path']} {row['name']}"),
        ],
        rows=rows,
    )


def _build_unmatched_section(rows: Sequence[Mapping[str, Any]]) -> ComparisonSection:
    total = sum(int(row["count"]) for row in rows)
    return ComparisonSection(
        name="compared_not",
        title="What could not be compared",
        caption="Two numbers are compared only if inputs, definitions, modes and poolings are the same.",
        figure=Figure(
            answer=f"{plural(total, 'number')} could not be compared.",
            table=Table(
                summary=plural(len(rows), "reason"),
                columns=[
                    Column(title="Model", value="model"),
                    Column(title="Lens", value="lens"),
                    Column(title="Reason", value="reason"),
                    Column(title="Numbers", value="count", format=COUNT),
                    Column(title="For example", value="example"),
                ],
                rows=rows,
            ),
        ),
    )


ROWS = 30
"""Maximum number of rows of a heat map: the values of a dimension with the most observations."""


_STEP = alt.X("step:O", title="updates", axis=alt.Axis(labelAngle=0, labelOverlap=True))


def build_training_curves(series: pl.DataFrame) -> Iterator[ComparisonSection]:
    """Build the sections of a series; none for an empty one.

    Args:
        series: Table of `sonde.comparison.summary.build_series`.
    """
    if series.is_empty():
        return
    yield _build_metric_lines(series)
    for (lens,), rows in series.group_by("lens", maintain_order=True):
        charts = [*_build_layer_maps(str(lens), rows), *_build_dimension_maps(str(lens), rows)]
        if charts:
            yield ComparisonSection(
                name=slug(f"growth_{lens}"),
                title=f"{format_name(lens).capitalize()}: growth over training",
                caption="One column per checkpoint, by its number of updates; darker is higher.",
                figure=Figure(charts=charts),
            )
    yield _build_crossing_table(series)


def _build_metric_lines(series: pl.DataFrame) -> ComparisonSection:
    """Build line charts over checkpoints, of the metric of each lens and task that covers most data."""
    rows = series.with_columns(base=pl.lit(""), base_layer="layer", difference="value", detectable="value")
    overview = select_overview(rows.filter(pl.col("step") == rows["step"].max()))
    charts: list[Chart] = []
    for row in overview.iter_rows(named=True):
        conditions = [
            pl.col(name).eq_missing(row[name])
            for name in ("lens", "task", "language", "side", "metric", "pooling", "k", "matching")
        ]
        metric_rows = rows.filter(*conditions).filter(pl.col("dimensions") == row["dimensions"])
        if not row["dimensions"]:
            metric_rows = metric_rows.filter(pl.col("layer").eq_missing(row["layer"]))
        scale = display_scale(row)
        values = metric_rows.select(
            "step", *(pl.col(name) * scale for name in ("value", "ci_low", "ci_high", "control_value"))
        )
        base = alt.Chart(alt.Data(values=values.to_dicts())).encode(x=_STEP)
        title = "%" if scale > 1 else format_name(row["metric"])
        zero = alt.Scale(zero=False)
        layers = [
            base.mark_errorband(opacity=0.2).encode(
                y=alt.Y("ci_low:Q", title=title, scale=zero), y2="ci_high:Q"
            ),
            base.mark_line(point=True).encode(y=alt.Y("value:Q", title=title, scale=zero)),
        ]
        if metric_rows["control_value"].is_not_null().any():
            layers.append(
                base.mark_line(strokeDash=[4, 4], opacity=0.7).encode(y=alt.Y("control_value:Q", title=title))
            )
        name = "_".join(filter(None, ("line", row["lens"], row["task"], row["side"], row["language"])))
        chart_title = ", ".join(
            filter(None, (row["lens"], row["task"], row["metric"].replace("_", " "), row["side"]))
        )
        charts.append(
            Chart(
                name=slug(name),
                title=chart_title,
                spec=to_vega_lite(alt.layer(*layers).properties(height=200)),
            )
        )
    return ComparisonSection(
        name="growth",
        title="Growth over training",
        caption="For each lens and task the metric that covers the most data, with its 95 % interval; the "
        "dashed line is the best control of the same checkpoint.",
        figure=Figure(charts=charts),
    )


def _build_layer_maps(lens: str, rows: pl.DataFrame) -> Iterator[Chart]:
    """Build a heat map of layers and checkpoints for each task with a number per layer."""
    layer_rows = rows.filter(has_dimension_names(), pl.col("layer").is_not_null(), pl.col("head").is_null())
    for (task, metric), metric_rows in layer_rows.group_by("task", "metric", maintain_order=True):
        pooling = metric_rows["pooling"][0]
        pooling_rows = metric_rows.filter(pl.col("pooling") == pooling)
        if pooling_rows["layer"].n_unique() < 2:
            continue
        values = pooling_rows.select("step", "layer", "value").to_dicts()
        title = f"{format_name(task)}: {format_name(metric)} by layer, pooling {pooling}"
        yield _build_map(f"layers_{lens}_{task}_{metric}", title, values, "layer:O", order="descending")


def _build_dimension_maps(lens: str, rows: pl.DataFrame) -> Iterator[Chart]:
    """Build a heat map of values and checkpoints for each dimension that is the only one of its numbers."""
    names = rows["dimensions"].explode(empty_as_null=False).struct.field("name").unique(maintain_order=True)
    for name in names.drop_nulls().to_list():
        if name == SELECTION:
            continue
        dimension_rows = rows.filter(has_dimension_names(name)).with_columns(of=dimension_value(name))
        for (metric,), metric_rows in dimension_rows.group_by("metric", maintain_order=True):
            top_values = metric_rows.group_by("of").agg(pl.col("n").max()).top_k(ROWS, by="n")["of"]
            map_rows = metric_rows.filter(pl.col("of").is_in(top_values.implode())).unique(
                ["step", "of"], maintain_order=True
            )
            if map_rows["of"].n_unique() < 2:
                continue
            values = map_rows.select("step", "of", "value").to_dicts()
            title = f"{format_name(metric)} by {format_name(name)}"
            yield _build_map(f"map_{lens}_{name}_{metric}", title, values, "of:N")


def _build_map(
    name: str, title: str, values: list[dict[str, object]], line: str, *, order: str = "ascending"
) -> Chart:
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_rect()
        .encode(
            x=_STEP,
            y=alt.Y(line, title=None, sort=order),
            color=alt.Color("value:Q", title=None),
            tooltip=["step:O", line, alt.Tooltip("value:Q", format=".3f")],
        )
    )
    return Chart(
        name=slug(name),
        title=title,
        spec=to_vega_lite(chart.properties(height=alt.Step(16))),
        wide=line == "of:N",
    )


def _build_crossing_table(series: pl.DataFrame) -> ComparisonSection:
    """Build the table of the steps at which numbers cross their controls for good."""
    crossings = find_crossings(series).sort("crossed", nulls_last=True, maintain_order=True)
    n_crossings = crossings["crossed"].count()
    rows = add_text_columns(
        crossings.with_columns(
            base_layer="layer",
            difference="last",
            detectable="last",
            outcome=pl.lit(""),
            why=pl.lit(""),
            dimensions=pl.lit([], dtype=series.schema["dimensions"]),
        ).rename({"about": "words"})
    )
    return ComparisonSection(
        name="crossings",
        title="When numbers cross their controls",
        caption="The first checkpoint from which on a number stays beyond its best control with its whole "
        "95 % interval, and with enough data for a verdict.",
        figure=Figure(
            answer=f"{n_crossings:,} of {crossings.height:,} numbers are beyond their control by the last "
            "checkpoint."
            if crossings.height
            else "No number of these lenses has a control.",
            table=Table(
                summary=f"{crossings.height:,} numbers",
                columns=[
                    Column(title="Lens", value="lens"),
                    Column(title="Number", value="what"),
                    Column(
                        title="Of what",
                        value=lambda row: ", ".join(filter(None, (row["words"], row["about"]))),
                    ),
                    Column(title="Crosses at", value="crossed", format=Count(missing="not by the last")),
                    Column(title="First", value="first", format=Number(digits=3)),
                    Column(title="Last", value="last", format=Number(digits=3)),
                    Column(title="Control at last", value="control_value", format=Number(digits=3)),
                ],
                rows=rows.head(500),
            ),
        ),
    )


FOLDER = "comparison"
"""Folder, in that of a run, of the comparison of its models."""


def read_comparison(directory: Path) -> ComparisonData:
    """Read the files of a finished comparison.

    Raises:
        InputError: There is no comparison in the folder, or it cannot be read.
        StoreError: A file is not what was written.
    """
    table, facts = directory / "comparison.parquet", directory / "comparison.json"
    files = RunDirectory(directory)
    if not (files.holds(table) and files.holds(facts)):
        raise InputError(f"{directory}: no comparison here; `sonde compare DIR` makes one")
    changed_items, series = directory / "moved.parquet", directory / "series.parquet"
    try:
        content = json.loads(facts.read_text(encoding="utf-8"))
        return ComparisonData(
            differences=scan_files(table).collect(),
            comparisons=content["comparisons"],
            scores_key=str(content.get("of") or ""),
            changed_items=scan_files(changed_items).collect() if files.holds(changed_items) else None,
            series=scan_files(series).collect() if files.holds(series) else None,
        )
    except (ValueError, KeyError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{directory}: the comparison cannot be read ({reason}); compare again") from error


def sanitise_sections(sections: Iterable[ComparisonSection]) -> list[ComparisonSection]:
    """Make every text of the figures of sections safe, see `sonde.report.text.sanitise_figure`."""
    return [replace(section, figure=sanitise_figure(section.figure)) for section in sections]


def read_run_comparison(run: RunData) -> ComparisonData | None:
    """Read a run's own comparison of its models; None if there is none of the current scores."""
    try:
        comparison = read_comparison(run.directory.root / FOLDER)
    except InputError:
        return None
    return comparison if comparison.scores_key == run.summary.get("scores_key") else None


def build_run_comparison(run: RunData) -> list[ComparisonSection]:
    """Build the sections of a run's own comparison; none if it is not of the current scores."""
    comparison = read_run_comparison(run)
    return [] if comparison is None else sanitise_sections(build_comparison_sections(comparison))


PAGE = "comparison.html"


def write_comparison_page(directory: Path) -> Path:
    """Write ``comparison.html``.

    Returns:
        The path of the page.

    Raises:
        InputError: There is no comparison in the folder.
        StoreError: The page cannot be written.
    """
    return write_with_receipt(directory, PAGE, render_comparison(read_comparison(directory)))


def render_comparison(comparison: ComparisonData) -> str:
    """Render the page as HTML; every text is escaped."""
    curves = list(build_training_curves(comparison.series)) if comparison.series is not None else []
    sections = sanitise_sections((*curves, *build_comparison_sections(comparison)))
    charts = [chart for section in sections for chart in section.figure.charts]
    return render_template(
        "comparison",
        charts,
        compared=comparison,
        parts=sections,
        sentences=list(list_sentences(comparison)),
        legend=format_mark_legend(section.figure.answer for section in sections),
        papers={"": format_bibtex(CITATIONS)},
    )
