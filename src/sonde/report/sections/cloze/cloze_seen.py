"""Names of libraries that the model was trained on, and of others (INK, table 6)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import TEMPLATE, plot_curves
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.cloze import (
    LENS,
    build_k_table,
    list_differences,
    plot_statements,
    read_parts,
)
from sonde.results.schema import has_dimensions
from sonde.results.text_format import caveat, with_interval

_SHOWN = ("call", "import")


_WHO: Mapping[str, str] = {"true": "seen", "false": "unseen", "true-false": "difference"}


_UNSEEN_CALLS = has_dimensions({TEMPLATE: "call", "seen": "false"})


def _draw(run: RunData, found: pl.DataFrame) -> Figure | None:
    """Nothing where all is on one side."""
    named = found.with_columns(who=pl.col("group").replace(dict(_WHO)))
    rows = named.filter(pl.col("who").is_in(["seen", "unseen"]))
    if rows["who"].n_unique() < 2:
        return None
    order = pl.col("who").replace_strict({who: place for place, who in enumerate(_WHO.values())})
    shown = named.filter(pl.col("group").is_in(list(_WHO))).sort("template", "place", "subject", order, "k")
    lead = {"Statement": "statement", "Of": "subject", "Library": "who"}
    differences = list_differences(
        found.filter(pl.col("group") == "true-false"),
        lambda row: f"{row['statement']} of seen libraries are answered among the first ten",
        " than those of unseen ones",
    )
    return Figure(
        answer="\n".join([*differences, *_overlap(run)]),
        charts=plot_statements(rows, "cloze-seen", lambda part: plot_curves(part, ["seen", "unseen"])),
        table=build_k_table("Seen and unseen at every k, in % (INK, table 6)", shown, lead),
    )


def _overlap(run: RunData) -> list[str]:
    rows = run.scores(metrics=["answer_overlap"], where=_UNSEEN_CALLS, lens=LENS)
    return [
        f"{row['subject']}: of the {plural(row['n'], 'distinct answer')} to calls of unseen libraries, "
        f"{with_interval(row, 100, 1)} % are answers to calls of seen ones as well"
        f"{caveat(row)}."
        for row in rows.with_columns(subject=run.subject).iter_rows(named=True)
    ]


plot = SectionPlot(
    title="Names of APIs: seen and unseen libraries",
    lens=LENS,
    order=406,
    caption=(
        "A library counts as seen where any of its names is called in a file that the model was trained on, "
        "as its manifest or the corpus that the run names for it says. Intervals are 95 %, clustered by "
        "library."
    ),
    select=lambda run: read_parts(run, ["p_at_k"], "seen").filter(pl.col("template").is_in(_SHOWN)),
    figure=_draw,
)
