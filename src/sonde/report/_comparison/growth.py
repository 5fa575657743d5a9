"""Sections of a series of checkpoints: how numbers grow, layer by layer and construct by construct."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt
import polars as pl

from sonde.report._comparison.sections import ComparisonSection
from sonde.report._drawing.charts import specification
from sonde.report._shared.plot import Chart, Figure
from sonde.results.changes import overview, scale_of, with_words
from sonde.results.dimensions import SELECTION, dimension, dimensions_named
from sonde.results.formats import Count, Number
from sonde.results.series import crossings
from sonde.results.tables import Column, Table
from sonde.results.words import plain_words
from sonde.store.rundir import slug

ROWS = 30
"""Lines of a map: the values of a dimension with the most observations."""

_STEP = alt.X("step:O", title="updates", axis=alt.Axis(labelAngle=0, labelOverlap=True))


def growth(series: pl.DataFrame) -> Iterator[ComparisonSection]:
    """The sections of a series; nothing where it is empty.

    Args:
        series: Of `sonde.results.series.series_frame`.
    """
    if series.is_empty():
        return
    yield _lines(series)
    for (lens,), rows in series.group_by("lens", maintain_order=True):
        charts = [*_layers(str(lens), rows), *_dimensions(str(lens), rows)]
        if charts:
            yield ComparisonSection(
                name=slug(f"growth_{lens}"),
                title=f"{plain_words(lens).capitalize()}: growth over training",
                caption="A column a checkpoint, by its number of updates; the darker, the higher.",
                figure=Figure(charts=charts),
            )
    yield _crossed(series)


def _lines(series: pl.DataFrame) -> ComparisonSection:
    """For each lens and task the number that is over the most, over all checkpoints."""
    rows = series.with_columns(base=pl.lit(""), base_layer="layer", difference="value", detectable="value")
    asked = overview(rows.filter(pl.col("step") == rows["step"].max()))
    charts: list[Chart] = []
    for row in asked.iter_rows(named=True):
        same = [
            pl.col(name).eq_missing(row[name])
            for name in ("lens", "task", "language", "side", "metric", "pooling", "k", "matching")
        ]
        own = rows.filter(*same).filter(pl.col("dimensions") == row["dimensions"])
        if not row["dimensions"]:
            own = own.filter(pl.col("layer").eq_missing(row["layer"]))
        scale = scale_of(row)
        values = own.select(
            "step", *(pl.col(name) * scale for name in ("value", "ci_low", "ci_high", "control_value"))
        )
        base = alt.Chart(alt.Data(values=values.to_dicts())).encode(x=_STEP)
        title = "%" if scale > 1 else plain_words(row["metric"])
        zero = alt.Scale(zero=False)
        layers = [
            base.mark_errorband(opacity=0.2).encode(
                y=alt.Y("ci_low:Q", title=title, scale=zero), y2="ci_high:Q"
            ),
            base.mark_line(point=True).encode(y=alt.Y("value:Q", title=title, scale=zero)),
        ]
        if own["control_value"].is_not_null().any():
            layers.append(
                base.mark_line(strokeDash=[4, 4], opacity=0.7).encode(y=alt.Y("control_value:Q", title=title))
            )
        name = "_".join(filter(None, ("line", row["lens"], row["task"], row["side"], row["language"])))
        about = ", ".join(
            filter(None, (row["lens"], row["task"], row["metric"].replace("_", " "), row["side"]))
        )
        charts.append(
            Chart(name=slug(name), title=about, spec=specification(alt.layer(*layers).properties(height=200)))
        )
    return ComparisonSection(
        name="growth",
        title="Growth over training",
        caption="For each lens and task the number that is over the most, with its 95 % interval; dashed is "
        "the best control of the same checkpoint.",
        figure=Figure(charts=charts),
    )


def _layers(lens: str, rows: pl.DataFrame) -> Iterator[Chart]:
    """A map of layers and checkpoints for each task whose numbers have a layer each."""
    plain = rows.filter(dimensions_named(), pl.col("layer").is_not_null(), pl.col("head").is_null())
    for (task, metric), own in plain.group_by("task", "metric", maintain_order=True):
        pooling = own["pooling"][0]
        held = own.filter(pl.col("pooling") == pooling)
        if held["layer"].n_unique() < 2:
            continue
        values = held.select("step", "layer", "value").to_dicts()
        title = f"{plain_words(task)}: {plain_words(metric)} by layer, pooling {pooling}"
        yield _map(f"layers_{lens}_{task}_{metric}", title, values, "layer:O", descending=True)


def _dimensions(lens: str, rows: pl.DataFrame) -> Iterator[Chart]:
    """A map of a dimension's values and checkpoints, for every dimension that numbers have alone."""
    names = rows["dimensions"].explode(empty_as_null=False).struct.field("name").unique(maintain_order=True)
    for name in names.drop_nulls().to_list():
        if name == SELECTION:
            continue
        own = rows.filter(dimensions_named(name)).with_columns(of=dimension(name))
        for (metric,), held in own.group_by("metric", maintain_order=True):
            most = held.group_by("of").agg(pl.col("n").max()).top_k(ROWS, by="n")["of"]
            kept = held.filter(pl.col("of").is_in(most.implode())).unique(["step", "of"], maintain_order=True)
            if kept["of"].n_unique() < 2:
                continue
            values = kept.select("step", "of", "value").to_dicts()
            title = f"{plain_words(metric)} by {plain_words(name)}"
            yield _map(f"map_{lens}_{name}_{metric}", title, values, "of:N")


def _map(
    name: str, title: str, values: list[dict[str, object]], line: str, *, descending: bool = False
) -> Chart:
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_rect()
        .encode(
            x=_STEP,
            y=alt.Y(line, title=None, sort="descending" if descending else "ascending"),
            color=alt.Color("value:Q", title=None),
            tooltip=["step:O", line, alt.Tooltip("value:Q", format=".3f")],
        )
    )
    return Chart(
        name=slug(name),
        title=title,
        spec=specification(chart.properties(height=alt.Step(16))),
        wide=line == "of:N",
    )


def _crossed(series: pl.DataFrame) -> ComparisonSection:
    """When each number crosses its control for good."""
    found = crossings(series).sort("crossed", nulls_last=True, maintain_order=True)
    never = found["crossed"].null_count()
    several = found.height - never
    rows = with_words(
        found.with_columns(
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
        caption="The first checkpoint from which on a number stays beyond its best control: with its whole "
        "95 % interval, and resting on enough for a verdict.",
        figure=Figure(
            answer=f"{several:,} of {found.height:,} numbers are beyond their control by the last checkpoint."
            if found.height
            else "No number of these lenses has a control.",
            table=Table(
                summary=f"{found.height:,} numbers",
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
