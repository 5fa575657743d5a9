"""Names of libraries that the model was trained on, and of others (INK, table 6)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.base.formatting import plural
from sonde.report.charts import TEMPLATE, TEMPLATES, plot_curves
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.cloze import LENS, build_k_table, describe_difference, read_parts
from sonde.results.schema import has_dimensions
from sonde.results.text_format import caveat, with_interval

_SHOWN = ("call", "import")


_WHO: Mapping[str, str] = {"true": "seen", "false": "unseen"}


_GAP = "true-false"


_UNSEEN_CALLS = has_dimensions({TEMPLATE: "call", "seen": "false"})


class ClozeSeenLibraries:
    """Curves of seen and unseen libraries."""

    title = "Names of APIs: seen and unseen libraries"
    lens = LENS
    order = 406
    caption = (
        "A library counts as seen where any of its names is called in a file that the model was trained on, "
        "as its manifest or the corpus that the run names for it says. Intervals are 95 %, clustered by "
        "library."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Nothing where it is not known what the model was trained on, or all is on one side."""
        found = read_parts(run, ["p_at_k"], "seen").filter(pl.col("template").is_in(_SHOWN))
        rows = found.filter(pl.col("group").is_in(list(_WHO))).with_columns(
            who=pl.col("group").replace(dict(_WHO))
        )
        if rows["who"].n_unique() < len(_WHO):
            return None
        gaps = found.filter(pl.col("group") == _GAP)
        charts = [
            Chart(
                name=f"cloze-seen-{template}",
                title=TEMPLATES[template].capitalize(),
                spec=plot_curves(part, list(_WHO.values())),
            )
            for template in _SHOWN
            if (part := rows.filter(pl.col("template") == template)).height
        ]
        both = pl.concat([rows, gaps.with_columns(who=pl.lit("difference"))])
        order = {"seen": 0, "unseen": 1, "difference": 2}
        shown = both.sort("template", "place", "subject", pl.col("who").replace_strict(order), "k")
        lead = {"Statement": "statement", "Of": "subject", "Library": "who"}
        return Figure(
            answer="\n".join([*_gaps(gaps), *_overlap(run)]),
            charts=charts,
            table=build_k_table("Seen and unseen at every k, in % (INK, table 6)", shown, lead),
        )


def _gaps(gaps: pl.DataFrame) -> list[str]:
    return [
        describe_difference(
            row["subject"],
            f"{row['statement']} of seen libraries are answered among the first ten",
            row,
            " than those of unseen ones",
        )
        for row in gaps.filter(pl.col("k") == 10).iter_rows(named=True)
    ]


def _overlap(run: RunData) -> list[str]:
    rows = run.scores(metrics=["answer_overlap"], where=_UNSEEN_CALLS, lens=LENS)
    return [
        f"{row['subject']}: of the {plural(row['n'], 'distinct answer')} to calls of unseen libraries, "
        f"{with_interval(row, 100, 1)} % are answers to calls of seen ones as well"
        f"{caveat(row)}."
        for row in rows.with_columns(subject=run.subject).iter_rows(named=True)
    ]


plot = ClozeSeenLibraries()
