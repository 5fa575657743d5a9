"""Side effects of an erasure: probes of other properties, and later heads that follow syntax."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.lenses.causal.findings import ERASE, NAMES, WIDE, collect_erasures
from sonde.report.charts import plot_differences, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS, read_all_scores, title
from sonde.report.text import sort_differences
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT, with_interval
from sonde.stats.verdict import no_verdict_reason

HEADS = "heads that follow relations"


_SIGN_FLIP = {"value": -pl.col("value"), "ci_low": -pl.col("ci_high"), "ci_high": -pl.col("ci_low")}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw one chart per model and language."""
    show_subject = rows["subject"].n_unique() > 1
    return Figure(
        answer="\n".join(_list_answers(rows)),
        charts=[
            Chart(
                name=f"causal-others-{index}",
                title=f"Lost beyond matched directions{f', {subject}' if show_subject else ''}",
                spec=plot_differences(
                    part,
                    part.sort("value", descending=True)["name"].to_list(),
                    "points lost beyond matched directions",
                    "examples or edges",
                    100,
                    label_limit=400,
                ),
                wide=True,
            )
            for index, (subject, _, part) in enumerate(split_by_subject(rows))
        ],
        table=Table(
            summary="Everything that was measured after an erasure",
            columns=[
                MODEL,
                LANGUAGE,
                Column(title="Erased", value=lambda row: NAMES.get(row["erased"], row["erased"])),
                Column(title="At layer", value="layer", format=COUNT),
                Column(title="What is measured", value="what"),
                *score_columns("Lost beyond matched directions, points", digits=1, scale=100),
                Column(title="n counts", value=title.count_noun),
            ],
            rows=rows.sort("erased", "value", descending=[False, True]),
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read the losses at each property's layer, with the columns ``erased, what, name, subject``."""
    layers = [
        {"model": model, "language": language, "erased": erasure.task, "layer": erasure.layer}
        for model, language, erasures in collect_erasures(read_all_scores(run))
        for erasure in erasures
    ]
    if not layers:
        return pl.DataFrame()
    row_filter = (pl.col("control") == WIDE) & (pl.col("method") == ERASE)
    rows = run.scores(metrics=["gain", "hits_excess"], lens=LENS, controls=True, where=row_filter)
    heads = rows.filter((pl.col("metric") == "hits_excess") & has_dimension_names()).with_columns(
        erased=pl.col("task"), what=pl.lit(HEADS)
    )
    probes = rows.filter(has_dimension_names("erased", "erased_property")).with_columns(
        **_SIGN_FLIP,
        erased=dimension_value("erased_property"),
        what=pl.lit("probes of ") + pl.col("task").replace(NAMES),
    )
    losses = pl.concat([probes, heads]).join(
        pl.DataFrame(layers, schema_overrides={"layer": rows.schema["layer"]}),
        on=["model", "language", "erased", "layer"],
    )
    return losses.with_columns(
        name=pl.col("erased").replace(NAMES) + pl.lit(" erased: ") + pl.col("what"), subject=run.subject
    )


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    show_subject = rows["subject"].n_unique() > 1
    differences = sort_differences(rows.sort("value", descending=True).to_dicts())
    for row in differences.higher:
        name = f"{row['subject']}, {row['name']}" if show_subject else row["name"]
        yield f"{name} lose {with_interval(row, 100, 1)} points more than with matched directions."
    rest = differences.describe_rest()
    for row in differences.inconclusive[:1]:
        example = f"{row['name']} {with_interval(row, 100, 1)} points"
        rest[-1] += f" ({no_verdict_reason(row)}; {example})"
    if rest:
        yield f"Of {rows.height} compared with matched directions: {'; '.join(rest)}."


plot = SectionPlot(
    title="Interventions: what else an erasure takes",
    lens=LENS,
    order=353,
    caption=(
        "A property is erased at the layer chosen for it. Then new probes of another property are scored "
        "there, and the heads after that layer are scored on edges of syntactic relations. Shown are the "
        "points lost beyond matched directions, with 95 % intervals. A loss far from zero means that the two "
        "are entangled: the cost of the erasure is not only that of the erased property."
    ),
    select=_read_rows,
    figure=_draw,
)
