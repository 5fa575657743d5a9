"""How often a name is among the first k answers, in calls and imports (INK, table 4)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.base.formatting import join_names
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
from sonde.results.extremes import describe_extreme, find_extreme
from sonde.results.text_format import TOO_LITTLE, caveat, with_interval
from sonde.stats.verdict import no_verdict_reason

_SHOWN = ("call", "import")


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """One chart a kind of statement."""
    model, *controls = ANSWERERS.values()
    order = {name: place for place, name in enumerate((model, COMMON, *controls))}
    common = read_hits(run, common=True).filter(pl.col("template").is_in(_SHOWN))
    both = pl.concat([rows, common], how="diagonal")
    shown = both.sort("template", "place", "subject", pl.col("who").replace_strict(order, default=9), "k")
    lead = {"Statement": "statement", "Of": "subject", "Answers": "who"}
    return Figure(
        lead=_format_lead(rows),
        answer="\n".join(_list_answers(rows)),
        charts=plot_statements(
            rows, "cloze", lambda part: plot_curves(part, list(ANSWERERS.values()), ANSWERERS)
        ),
        table=build_k_table("Calls and imports at every k, in % (INK, table 4)", shown, lead),
        notes=[_WHOLE_NOTE] if WHOLE in rows["matching"] else [],
    )


def _format_lead(rows: pl.DataFrame) -> str:
    """What is right among ten answers, or as many as fewer candidates allow; of several models, by which."""
    own = rows.filter(pl.col("control").is_null() & (pl.col("k") <= 10))
    if own.is_empty():
        return ""
    order = pl.col("template") == "call"
    first = own.sort(order, "k", descending=True, maintain_order=True).row(0, named=True)
    same = own.filter(template=first["template"], k=first["k"]).to_dicts()
    what = "name" if first["matching"] == WHOLE else "left-out subtoken"
    where = "ranks first" if first["k"] == 1 else f"is among the first {first['k']} answers"
    if len(same) == 1:
        by = "with" if first["k"] == 1 else "of"
        return (
            f"In {first['statement']}, the right {what} {where} {by} {first['shown']} in "
            f"{with_interval(first, 100, 1)} % of cases{caveat(first)}."
        )
    if (found := find_extreme(same)) is None:
        why = next(filter(None, map(no_verdict_reason, same)), "they do not vary")
        shares = join_names([f"{row['subject']} {with_interval(row, 100, 1)} %" for row in same])
        said = f"{TOO_LITTLE} on which model is right most often ({why}): {shares}"
    else:
        said = describe_extreme(
            found,
            lambda row: row["subject"],
            lambda row: f"{with_interval(row, 100, 1)} % of cases",
            verb="is right most often",
            end="top",
        )
    return f"In {first['statement']}, where the right {what} {where}, of {len(same)} models: {said}."


def _list_answers(rows: pl.DataFrame) -> Iterator[str]:
    for subject, _, part in split_by_subject(rows.filter(pl.col("k") == 1)):
        shares: list[str] = []
        for row in part.filter(pl.col("control").is_null()).sort("template").iter_rows(named=True):
            others = part.filter(pl.col("control").is_not_null() & (pl.col("template") == row["template"]))
            best = others.sort("value", descending=True).head(1).to_dicts()
            beside = "".join(f" ({one['who']}: {with_interval(one, 100, 1)} %)" for one in best)
            shares.append(f"{row['statement']} {with_interval(row, 100, 1)} %{beside}{caveat(row)}")
        if shares:
            yield f"{subject}: right at once in {', '.join(shares)}."


_WHOLE_NOTE = (
    "Each statement was scored whole, what stands behind the name included, with the right name and with "
    "at most ninety-nine others of the same place in a name; k counts among these, so no number here "
    "compares with those of masked models. Log-probabilities are summed over a statement's subwords; the "
    "mean over them stands under “how an answer is counted”."
)


plot = SectionPlot(
    title="Names of APIs: right among the first k",
    lens=LENS,
    order=400,
    caption=(
        "The share of cloze queries whose left-out subtoken is among the model's first k answers (P@k). "
        "Controls answer by the most frequent answers of other libraries, by the most frequent subtokens of "
        "the training data, or with random weights. Intervals are 95 %, clustered by library."
    ),
    select=lambda run: read_hits(run).filter(pl.col("template").is_in(_SHOWN)),
    figure=_draw,
)
