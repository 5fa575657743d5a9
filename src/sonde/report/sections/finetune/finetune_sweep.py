"""What more data, longer inputs, more epochs or frozen weights change (CuBERT, tables 3 and 4)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.report.charts import colour_by_meaning, dash_by_field, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.finetune import (
    LENS,
    METHODS,
    METRICS,
    POINTERS,
    PRETRAINED,
    get_row_key,
    order_methods,
    read_test_scores,
    select_chart_rows,
    to_chart_records,
    to_label,
)
from sonde.report.text import lacks_verdict
from sonde.results.schema import dimensions_text
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import (
    PERCENT_WITH_INTERVAL,
    TOO_LITTLE,
    describe_null_results,
    difference_caveat,
    with_interval,
)
from sonde.stats.verdict import no_verdict_reason

_SHOWN = 5
"""Trainings that a sentence names."""


_IN_TABLE = ("majority", "length", "parse_error", "artefacts")
"""Baselines that are in the table only."""


class FinetuneSweep:
    """Lines over the values of the option that was swept last, one chart a task and metric."""

    title = "Fine-tuning: what each option changes"
    lens = LENS
    order = 405
    caption = (
        "Share of the test examples that are right for each value of the options that were swept, with 95 % "
        "intervals clustered as the code is. Each value is trained by itself, and what training leaves open "
        "is chosen on validation for it alone. A bag of tokens knows only the training fraction. Differences "
        "to the last value are paired: both are asked the same examples. Majority, length, parse errors "
        "and artefacts are in the table only."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a task and metric; the table has the differences."""
        rows = read_test_scores(run, list(METRICS)).filter(pl.col("swept") != "")
        if rows.is_empty():
            return None
        held = pl.col("dimensions").list
        last, others = held.last().struct, held.head(held.len() - 1)
        rows = rows.with_columns(
            option=last.field("name"), value_of=last.field("value"), others=dimensions_text(others)
        )
        charts: list[Chart] = []
        drawn = select_chart_rows(rows).filter(
            ~pl.col("control").is_in(_IN_TABLE) | pl.col("control").is_null()
        )
        for (subject, metric), part in drawn.partition_by(
            "subject", "metric", as_dict=True, maintain_order=True
        ).items():
            name = "-".join(str(subject).replace(",", "").split())
            charts.append(
                Chart(
                    name=f"finetune-sweep-{name}-{metric}",
                    title=f"{str(subject).capitalize()}: share {METRICS[str(metric)]}",
                    spec=_build_spec(part),
                )
            )
        changes = read_test_scores(run, ["change"]).to_dicts()
        lines = [
            _format_sentence(row) for row in changes if row["control"] is None and _is_main_metric(row, rows)
        ]
        return Figure(
            lead=_format_lead(changes, rows),
            answer="\n".join(lines),
            charts=charts,
            table=_build_table(rows, changes),
            notes=_list_notes(run),
        )


def _is_main_metric(row: dict[str, Any], rows: pl.DataFrame) -> bool:
    """Whether a difference is in its task's own metric: of a pointer, errors located and repaired."""
    metrics = rows.filter(pl.col("task") == row["task"])["metric"].to_list()
    own = "localisation_repair" if "localisation_repair" in metrics else "accuracy"
    return row["of_metric"] == own


def _format_lead(changes: list[dict[str, Any]], rows: pl.DataFrame) -> str:
    compared = [row for row in changes if row["control"] is None and _is_main_metric(row, rows)]
    judged = [row for row in compared if not lacks_verdict(row)]
    if not judged:
        why = dict.fromkeys(map(no_verdict_reason, compared))
        if not compared:
            return "The values of a sweep were trained; no difference between them is known."
        differences = ", ".join(f"{row['swept']} {with_interval(row, 100, 1)}" for row in compared[:_SHOWN])
        return (
            f"Too little data on the values of the sweep ({'; '.join(why)}): against "
            f"{to_label(compared[0]['compared_to'])}, {differences} points{', …' * (len(compared) > _SHOWN)}."
        )
    worse = sum(row["ci_high"] < 0 for row in judged)
    better = sum(row["ci_low"] > 0 for row in judged)
    last = to_label(judged[0]["compared_to"])
    level = [row for row in judged if row["ci_low"] <= 0 <= row["ci_high"]]
    rest = "".join(f"; {one}" for one in describe_null_results(level, 100, 1, " points"))
    rest += f"; {TOO_LITTLE} in {len(compared) - len(judged)}" if len(judged) < len(compared) else ""
    return (
        f"Against {last}, of {len(compared)} training{'s' * (len(compared) != 1)} with other values "
        f"{worse} {'is' if worse == 1 else 'are'} worse and {better} better beyond the interval{rest}."
    )


def _format_sentence(row: dict[str, Any]) -> str:
    other = to_label(row["compared_to"])
    return (
        f"{row['subject']}, {METRICS[row['of_metric']]}: {row['swept']} minus {other} "
        f"{with_interval(row, 100, 1)} points{difference_caveat(row, 100, 1, ' points')}."
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = to_chart_records(rows, "value_of", "others")
    order = rows["value_of"].unique(maintain_order=True).to_list()
    several = rows["others"].n_unique() > 1
    scale = alt.Scale(domain=[0, 1])
    option = rows["option"][0]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("value_of:O", title=option, sort=order, axis=alt.Axis(labelAngle=0)),
        color=colour_by_meaning("method", METHODS, set(rows["method"])),
        tooltip=[
            *([alt.Tooltip("others:N", title=" ")] if several else []),
            alt.Tooltip("value_of:O", title=option),
            alt.Tooltip("method:N"),
            alt.Tooltip("reading:N", title="%"),
            alt.Tooltip("n:Q", format=",", title="examples"),
        ],
    )
    line = base.mark_line(opacity=0.6)
    if several:
        line = line.encode(strokeDash=dash_by_field("others"))
    y = alt.Y("value:Q", title="test examples", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        base.mark_rule(style="spread", clip=True).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        line.encode(y=y),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(y=y),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(y=y),
    ]
    return to_vega_lite(alt.layer(*layers))


def _build_table(rows: pl.DataFrame, changes: list[dict[str, Any]]) -> Table:
    held = {(*get_row_key(row), row["of_metric"], row["control"]): row for row in changes}
    order = {name: place for place, name in enumerate(order_methods(rows))}
    told = {
        key: place
        for place, key in enumerate(rows.select("subject", "metric").unique(maintain_order=True).iter_rows())
    }
    return Table(
        summary="Every task, metric, method and value",
        columns=[
            Column(title="Task", value="subject"),
            Column(title="Metric", value=lambda row: METRICS[row["metric"]]),
            Column(title="Method", value="method", help="What was trained, and from which weights."),
            Column(title="Values", value="swept", help="What the sweep set."),
            Column(title="Share, %", format=PERCENT_WITH_INTERVAL),
            Column(
                title="Minus the last values, points",
                value=lambda row: held.get((*get_row_key(row), row["metric"], row["control"])),
                format=PERCENT_WITH_INTERVAL,
                help="The difference from the last values of the sweep on the same examples.",
            ),
            *size_columns("Examples"),
        ],
        # Sorting is stable: values stay as they were swept.
        rows=sorted(
            rows.to_dicts(), key=lambda row: (told[row["subject"], row["metric"]], order[row["method"]])
        ),
    )


def _list_notes(run: RunData) -> list[str]:
    """How much each value cuts off."""
    cut = read_test_scores(run, ["truncated"]).filter(
        (pl.col("swept") != "") & (pl.col("method") == PRETRAINED)
    )
    said: dict[bool, list[str]] = {True: [], False: []}
    for row in cut.iter_rows(named=True):
        if row["value"] > 0:
            named = f"{row['subject']}, {row['swept']}"
            said[row["task"] in POINTERS].append(f"{named}: {number(100 * row['value'], 1)} %")
    notes = [f"Test examples longer than the limit: {'; '.join(said[False])}."] if said[False] else []
    if said[True]:
        notes.append(
            "Test examples with their error, or all that would be right, beyond the limit, which count as "
            f"not found: {'; '.join(said[True])}."
        )
    return notes


plot = FinetuneSweep()
