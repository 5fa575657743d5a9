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
from sonde.results.text_format import verdict_mark, with_interval

_GROUP_LABELS: Mapping[str, str] = {"true": "seen", "false": "unseen", "true-false": "difference"}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw curves of seen and unseen libraries; nothing where all are on one side."""
    all_rows = rows.with_columns(who=pl.col("group").replace(dict(_GROUP_LABELS)))
    curve_rows = all_rows.filter(pl.col("who").is_in(["seen", "unseen"]))
    if curve_rows["who"].n_unique() < 2:
        return None
    order = pl.col("who").replace_strict({label: index for index, label in enumerate(_GROUP_LABELS.values())})
    table_rows = all_rows.filter(pl.col("group").is_in(list(_GROUP_LABELS))).sort(
        "template", "place", "subject", order, "k"
    )
    lead = {"Statement": "statement", "Of": "subject", "Library": "who"}
    differences = list_differences(
        rows.filter(pl.col("group") == "true-false"),
        lambda row: f"{row['statement']} of seen libraries are answered among the first ten",
        " than those of unseen ones",
    )
    return Figure(
        answer="\n".join([*differences, *_describe_overlap(run)]),
        charts=plot_statements(curve_rows, "cloze-seen", lambda part: plot_curves(part, ["seen", "unseen"])),
        table=build_k_table("Seen and unseen at every k, in % (INK, table 6)", table_rows, lead),
    )


def _describe_overlap(run: RunData) -> list[str]:
    rows = run.scores(
        metrics=["answer_overlap"], where=has_dimensions({TEMPLATE: "call", "seen": "false"}), lens=LENS
    )
    return [
        f"{row['subject']}: of the {plural(row['n'], 'distinct answer')} to calls of unseen libraries, "
        f"{with_interval(row, 100, 1)} % are answers to calls of seen ones as well"
        f"{verdict_mark(row)}."
        for row in rows.with_columns(subject=run.subject).iter_rows(named=True)
    ]


plot = SectionPlot(
    title="Names of APIs: seen and unseen libraries",
    lens=LENS,
    order=406,
    caption=(
        "A library counts as seen if a file that the model was trained on calls any of its names, "
        "according to the model's manifest or the corpus that the run names for it. Intervals are 95 %, "
        "clustered by library."
    ),
    select=lambda run: read_parts(run, ["p_at_k"], "seen").filter(
        pl.col("template").is_in(("call", "import"))
    ),
    figure=_draw,
)
