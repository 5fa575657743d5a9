"""Shares of names among the first k answers, in calls and imports (INK, table 4)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.report.charts import plot_curves, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.cloze import (
    ANSWERERS,
    COMMON,
    LENS,
    WHOLE,
    build_k_table,
    plot_statements,
    read_hits,
)
from sonde.report.text import describe_highest
from sonde.results.text_format import verdict_mark, with_interval

_CHART_TEMPLATES = ("call", "import")


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw a chart for each kind of statement."""
    model, *controls = ANSWERERS.values()
    order = {name: index for index, name in enumerate((model, COMMON, *controls))}
    common = read_hits(run, common=True).filter(pl.col("template").is_in(_CHART_TEMPLATES))
    all_rows = pl.concat([rows, common], how="diagonal")
    table_rows = all_rows.sort(
        "template", "place", "subject", pl.col("who").replace_strict(order, default=9), "k"
    )
    lead = {"Statement": "statement", "Of": "subject", "Answers": "who"}
    return Figure(
        lead=_format_lead(rows),
        answer="\n".join(_list_answers(rows)),
        charts=plot_statements(
            rows, "cloze", lambda part: plot_curves(part, list(ANSWERERS.values()), ANSWERERS)
        ),
        table=build_k_table("Calls and imports at every k, in % (INK, table 4)", table_rows, lead),
        notes=[_WHOLE_NOTE] * (WHOLE in rows["matching"]),
    )


_WHOLE_NOTE = (
    "Each statement was scored whole, including the text after the name, with the right name and with at "
    "most ninety-nine others of the same level. The rank k is among these, so numbers here are not "
    "comparable with those of masked models. Log-probabilities are summed over a statement's subwords; “how "
    "an answer is counted” has their mean."
)


def _format_lead(rows: pl.DataFrame) -> str:
    """Say how often the right name is among ten answers, or as many as exist; of several models, by which."""
    model_rows = rows.filter(pl.col("control").is_null() & (pl.col("k") <= 10))
    if model_rows.is_empty():
        return ""
    order = pl.col("template") == "call"
    first = model_rows.sort(order, "k", descending=True, maintain_order=True).row(0, named=True)
    scores = model_rows.filter(template=first["template"], k=first["k"]).to_dicts()
    target = "name" if first["matching"] == WHOLE else "left-out subtoken"
    rank_text = "ranks first" if first["k"] == 1 else f"is among the first {first['k']} answers"
    if len(scores) == 1:
        preposition = "with" if first["k"] == 1 else "of"
        return (
            f"In {first['statement']}, the right {target} {rank_text} {preposition} {first['shown']} in "
            f"{with_interval(first, 100, 1)} % of cases{verdict_mark(first)}."
        )
    clause = describe_highest(
        scores,
        "models",
        lambda row: row["subject"],
        lambda row: f"{with_interval(row, 100, 1)} % of cases",
        verb="is right most often",
        topic="which model is right most often",
    )
    return f"In {first['statement']}, where the right {target} {rank_text}: {clause}."


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    for subject, _, part in split_by_subject(rows.filter(pl.col("k") == 1)):
        shares: list[str] = []
        for row in part.filter(pl.col("control").is_null()).sort("template").iter_rows(named=True):
            controls = part.filter(pl.col("control").is_not_null() & (pl.col("template") == row["template"]))
            best = controls.sort("value", descending=True).head(1).to_dicts()
            control_text = "".join(
                f" ({control['who']}: {with_interval(control, 100, 1)} %)" for control in best
            )
            share = f"{with_interval(row, 100, 1)} %{control_text}{verdict_mark(row)}"
            shares.append(f"{row['statement']} {share}")
        if shares:
            yield f"{subject}: right at once in {', '.join(shares)}."


plot = SectionPlot(
    title="Names of APIs: right among the first k",
    lens=LENS,
    order=400,
    caption=(
        "Share of cloze queries whose left-out subtoken is among the model's first k answers (P@k). "
        "Controls give the most frequent answers of other libraries or the most frequent subtokens of the "
        "training data, or have random weights. Intervals are 95 %, clustered by library."
    ),
    select=lambda run: read_hits(run).filter(pl.col("template").is_in(_CHART_TEMPLATES)),
    figure=_draw,
)
