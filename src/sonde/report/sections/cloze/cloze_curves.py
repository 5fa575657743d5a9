"""How often a name is among the first k answers, in calls and imports (INK, table 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import join_names
from sonde.report.charts import TEMPLATES, plot_curves
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.cloze import (
    ANSWERERS,
    COMMON,
    LENS,
    WHOLE,
    build_k_table,
    read_common_hits,
    read_hits,
)
from sonde.results.extremes import describe_extreme, find_extreme
from sonde.results.text_format import TOO_LITTLE, caveat, with_interval
from sonde.stats.verdict import no_verdict_reason

_SHOWN = ("call", "import")


class ClozeCurves:
    """A curve a kind of statement, its controls beside it."""

    title = "Names of APIs: right among the first k"
    lens = LENS
    order = 400
    caption = (
        "The share of cloze queries whose left-out subtoken is among the model's first k answers (P@k). "
        "Controls answer by the most frequent answers of other libraries, by the most frequent subtokens of "
        "the training data, or with random weights. Intervals are 95 %, clustered by library."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a kind of statement."""
        rows = read_hits(run).filter(pl.col("label").is_in(_SHOWN))
        if rows.is_empty():
            return None
        charts = [
            Chart(
                name=f"cloze-{template}",
                title=TEMPLATES[template].capitalize(),
                spec=plot_curves(part, list(ANSWERERS.values()), ANSWERERS),
            )
            for template in _SHOWN
            if (part := rows.filter(pl.col("label") == template)).height
        ]
        model, *controls = ANSWERERS.values()
        order = {name: place for place, name in enumerate((model, COMMON, *controls))}
        common = read_common_hits(run).filter(pl.col("label").is_in(_SHOWN))
        both = pl.concat([rows, common], how="diagonal")
        shown = both.sort("label", "place", "subject", pl.col("who").replace_strict(order, default=9), "k")
        lead = {"Statement": "statement", "Of": "subject", "Answers": "who"}
        return Figure(
            lead=_format_lead(rows),
            answer=_format_answer(rows),
            charts=charts,
            table=build_k_table("Calls and imports at every k, in % (INK, table 4)", shown, lead),
            notes=_list_notes(rows),
        )


def _format_lead(rows: pl.DataFrame) -> str:
    """What is right among ten answers, or as many as fewer candidates allow; of several models, by which."""
    own = rows.filter(pl.col("control").is_null() & (pl.col("k") <= 10))
    if own.is_empty():
        return ""
    first = own.sort(pl.col("label") == "call", "k", descending=True, maintain_order=True).row(0, named=True)
    same = own.filter((pl.col("label") == first["label"]) & (pl.col("k") == first["k"])).to_dicts()
    what = "name" if first["matching"] == WHOLE else "left-out subtoken"
    where = "ranks first" if first["k"] == 1 else f"is among the first {first['k']} answers"
    if len(same) == 1:
        by = "with" if first["k"] == 1 else "of"
        return (
            f"In {first['statement']}, the right {what} {where} {by} {first['shown']} in "
            f"{with_interval(first, 100, 1)} % of cases{caveat(first)}."
        )
    found = find_extreme(same)
    said = (
        f"{TOO_LITTLE} on which model is right most often ({_explain_missing_verdict(same)}): "
        + join_names([f"{row['subject']} {with_interval(row, 100, 1)} %" for row in same])
        if found is None
        else describe_extreme(
            found,
            lambda row: row["subject"],
            lambda row: f"{with_interval(row, 100, 1)} % of cases",
            verb="is right most often",
            end="top",
        )
    )
    return f"In {first['statement']}, where the right {what} {where}, of {len(same)} models: {said}."


def _explain_missing_verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """Why no two of several numbers allow a verdict."""
    return next(filter(None, map(no_verdict_reason, rows)), "they do not vary")


def _format_answer(rows: pl.DataFrame) -> str:
    said: list[str] = []
    for (subject,), part in rows.partition_by("subject", as_dict=True, maintain_order=True).items():
        at_once = part.filter(pl.col("k") == 1).sort("label")
        own = at_once.filter(pl.col("control").is_null())
        shares: list[str] = []
        for row in own.iter_rows(named=True):
            others = at_once.filter(pl.col("control").is_not_null() & (pl.col("label") == row["label"]))
            best = others.sort("value", descending=True).head(1).to_dicts()
            beside = "".join(f" ({one['who']}: {with_interval(one, 100, 1)} %)" for one in best)
            shares.append(f"{row['statement']} {with_interval(row, 100, 1)} %{beside}{caveat(row)}")
        if shares:
            said.append(f"{subject}: right at once in {', '.join(shares)}.")
    return "\n".join(said)


def _list_notes(rows: pl.DataFrame) -> list[str]:
    if WHOLE not in rows["matching"]:
        return []
    return [
        "Each statement was scored whole, what stands behind the name included, with the right name and with "
        "at most ninety-nine others of the same place in a name; k counts among these, so no number here "
        "compares with those of masked models. Log-probabilities are summed over a statement's subwords; the "
        "mean over them stands under “how an answer is counted”."
    ]


plot = ClozeCurves()
