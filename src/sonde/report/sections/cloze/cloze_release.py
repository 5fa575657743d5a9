"""Names that appeared with a release of a library, and those that it had before."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.cloze import ANSWERERS, LENS, list_differences
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns

_SIDES: Mapping[str, str] = {"new": "new", "kept": "in both releases", "new-kept": "difference"}


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Build the table of both sides at every k."""
    positions = {side: index for index, side in enumerate(_SIDES)}
    rows = rows.with_columns(
        side=dimension_value("release"),
        shown=run.subject,
        subject=run.subject,
        who=pl.col("control").fill_null("").replace(dict(ANSWERERS)),
    ).sort("shown", "k", pl.col("side").replace_strict(positions, default=9, return_dtype=pl.Int64), "who")
    pairs = rows.filter((pl.col("side") == "new-kept") & pl.col("control").is_null())
    clause, comparison = "new names are among the first ten", " than names of both releases"
    return Figure(
        answer="\n".join(list_differences(pairs, clause, comparison)),
        table=Table(
            summary="Both sides at every k",
            columns=[
                MODEL,
                Column(title="Answers", value="who"),
                Column(title="Names", value=lambda row: _SIDES[row["side"]]),
                Column(title="k", value=lambda row: f"{row['k']}"),
                *score_columns(
                    "P@k, %",
                    1,
                    100,
                    n="Queries",
                    clusters="Distinct names",
                    help="The name is among the first k answers.",
                ),
            ],
            rows=rows.to_dicts(),
        ),
    )


plot = SectionPlot(
    title="Names of APIs: new in a release",
    lens=LENS,
    order=407,
    caption=(
        "Public functions and classes of the release that the run names: those that the earlier release "
        "lacks, and those in both. Their last level is asked for in calls and imports. A model whose "
        "training ended before the release can only guess the new ones. Intervals are 95 %, by name."
    ),
    select=lambda run: run.scores(
        metrics=["p_at_k"], where=has_dimension_names("release"), lens=LENS, controls=True
    ),
    figure=_draw,
)
