"""Fine-tuned models, from-scratch baselines and baselines without a model (CuBERT, tables 2 and 5)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import number, plural
from sonde.report.charts import colour_by_meaning, plot_estimates
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.finetune import (
    LENS,
    LISTED_ROWS,
    METHODS,
    METRICS,
    POINTERS,
    PRETRAINED,
    SCRATCH,
    add_display_names,
    describe_open_differences,
    list_truncation_notes,
    match_rows,
    order_methods,
    read_test_scores,
    select_chart_rows,
    select_main_differences,
    sort_rows,
    to_chart_records,
)
from sonde.report.text import Differences, list_first
from sonde.results.schema import REASON, has_dimensions
from sonde.results.tables import Column, Table, estimate_columns, size_columns
from sonde.results.text_format import PERCENT, SHARE, Row, with_interval
from sonde.stats.verdict import MIN_SEEDS, no_verdict_reason

_CONSTANT_SHARE = 0.99
"""Share of equal answers from which a training has learned nothing."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each metric."""
    gains = read_test_scores(run, ["gain"]).filter(pl.col("swept") == "").to_dicts()
    main_gains = select_main_differences(row for row in gains if row["control"] == SCRATCH)
    get_gain, get_maximum = (
        match_rows(gains),
        match_rows(read_test_scores(run, ["ceiling"]).iter_rows(named=True)),
    )
    return Figure(
        lead=_format_lead(main_gains),
        answer="\n".join(
            f"{row['subject']}, {METRICS.get(row['of_metric'], row['of_metric'])}: pre-trained minus from "
            f"scratch {with_interval(row, 100, 1)} points{SHARE.difference_caveat(row)}."
            for row in main_gains.rows
        ),
        charts=[
            Chart(name=f"finetune-{metric}", title=f"Share {METRICS[metric]}", spec=_build_spec(part))
            for metric in METRICS
            if not (part := select_chart_rows(rows).filter(pl.col("metric") == metric)).is_empty()
        ],
        table=Table(
            summary="Every task, metric and method",
            columns=[
                Column(title="Task", value="subject"),
                Column(title="Metric", value=lambda row: METRICS[row["metric"]]),
                Column(title="Method", value="method", help="The trained model and its initial weights."),
                *estimate_columns("Share, %", 1, 100),
                Column(
                    title="At most, %",
                    value=get_maximum,
                    format=PERCENT,
                    help="Upper bound: the labels of the rest depend on text beyond the length limit.",
                ),
                *estimate_columns(
                    "Pre-trained minus this method, points",
                    1,
                    100,
                    key=get_gain,
                    interval="Interval of the difference",
                    help="How much better the pre-trained model is on the same examples.",
                ),
                *size_columns("Examples"),
            ],
            rows=sort_rows(rows),
        ),
        notes=[
            *_describe_seeds(run, main_gains.rows),
            *_describe_constant_models(run),
            *list_truncation_notes(run),
            *_list_notes(run),
        ],
    )


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
    return plot_estimates(
        to_chart_records(rows, "subject"),
        "subject",
        "test examples",
        {"subject:N": " ", "method:N": "", "reading:N": "%", "n:Q": "examples|,"},
        by="method",
        by_order=order_methods(rows),
        colour=colour_by_meaning("method", METHODS, set(rows["method"])),
        style="spread",
    )


def _format_lead(gains: Differences) -> str:
    if not gains.rows:
        return ""
    size = plural(len(gains.rows), "fine-tuned task")
    if gains.is_open:
        return f"Too little data on {size} {describe_open_differences(gains, 'subject')} points over scratch."
    sentence = f"Pre-training helps beyond the interval in {len(gains.higher)} of {size}"
    sentence += f" and hurts in {len(gains.lower)}" if gains.lower else ""
    return f"{'; '.join([sentence, *gains.describe_rest()])}."


def _describe_seeds(run: RunData, gains: Sequence[Row]) -> Iterator[str]:
    """Yield what each seed got right, pre-trained and from scratch, and what the intervals cover."""
    rows = add_display_names(run.scores(metrics=list(METRICS), by="seed", lens=LENS, controls=True), run)
    for gain in gains:
        seed_rows = rows.filter(subject=gain["subject"], metric=gain["of_metric"]).sort("seed")
        seed_texts = [
            f"{method} {', '.join(number(100 * value, 1) for value in values)} %"
            for method in (PRETRAINED, METHODS[SCRATCH])
            if len(values := seed_rows.filter(method=method)["value"]) > 1
        ]
        if seed_texts:
            coverage = "hold what varies between seeds and between clusters of code"
            if gain["seeds"] is None:
                coverage = "are over clusters of code, not over seeds"
            elif gain["seeds"] < MIN_SEEDS:
                coverage += f"; below {MIN_SEEDS} seeds there is no verdict"
            yield (
                f"{gain['subject']}, {METRICS[gain['of_metric']]}, by seed: {'; '.join(seed_texts)}. "
                f"The intervals {coverage}."
            )
        elif gain["seeds"] == 1:
            yield (
                f"{gain['subject']}: trained from one seed. The intervals cover clusters of code and not the "
                "variation between seeds, and there is no verdict below "
                f"{MIN_SEEDS} seeds (--option finetune.seeds={MIN_SEEDS})."
            )
    if gains:
        yield (
            "Each model comes from one pre-training run: conclusions are about this checkpoint, not about "
            "pre-training as such (Sellam et al. 2022)."
        )


def _describe_constant_models(run: RunData) -> Iterator[str]:
    """Yield a warning for each training that gives one answer to nearly everything."""
    rows = add_display_names(
        run.scores(metrics=["commonest_answer"], by="seed", lens=LENS, controls=True), run
    )
    for row in rows.filter(pl.col("value") >= _CONSTANT_SHARE).iter_rows(named=True):
        yield (
            f"{row['subject']}, {row['method']}, seed {row['label']}: {number(100 * row['value'], 1)} % of "
            "the answers are the same; this training collapsed."
        )


def _list_notes(run: RunData) -> Iterator[str]:
    """Yield notes on truncated examples, on methods left out, and on tasks with too little data."""
    pointers = "have their error, or all that would be right, beyond the length limit and count as not found"
    classes = "are longer than the limit, and what lies beyond it was not read"
    truncated_rows = add_display_names(
        run.scores(metrics=["truncated"], lens=LENS, where=has_dimensions({})), run
    )
    for row in truncated_rows.filter(pl.col("value") > 0).iter_rows(named=True):
        consequence = pointers if row["task"] in POINTERS else classes
        yield f"{row['subject']}: {number(100 * row['value'], 1)} % of the test examples {consequence}."
    omissions = add_display_names(run.scores(metrics=["left_out"], by=REASON, lens=LENS, controls=True), run)
    for row in omissions.iter_rows(named=True):
        yield f"{row['subject']}: {row['method']} is left out: {row['label']}."
    is_model = (pl.col("swept") == "") & pl.col("control").is_null()
    reasons: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in read_test_scores(run, ["accuracy"]).filter(is_model).sort("subject").iter_rows(named=True):
        if reason := no_verdict_reason(row):
            reasons[reason][row["subject"]] = f"{row['subject']} {with_interval(row, 100, 1)} %"
    for reason, tasks in reasons.items():
        yield f"Too little data on {list_first([*tasks.values()], LISTED_ROWS, '; ')}: {reason}."


plot = SectionPlot(
    title="Fine-tuning: what pre-training buys",
    lens=LENS,
    order=400,
    caption=(
        "Test accuracy with 95 % intervals clustered as the code is. The fine-tuned model is shown with the "
        "same architecture trained from scratch on the same examples, other models trained from scratch, "
        "and baselines without a model. Hyperparameters are chosen on validation. Differences are paired on "
        "the same examples. If a label rests on code beyond the length limit, the example is left out, or "
        "the table gives the highest accuracy that is possible. A hollow dot rests on too little for a "
        "verdict."
    ),
    select=lambda run: read_test_scores(run, list(METRICS)).filter(pl.col("swept") == ""),
    figure=_draw,
)
