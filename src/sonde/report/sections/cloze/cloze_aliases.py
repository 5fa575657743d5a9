"""Names under an alias, and the same names under the alias of another module (INK, table 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import number, plural
from sonde.languages import format_language
from sonde.report.charts import TEMPLATE, plot_curves, plot_dots, sort_by_k
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import (
    LENS,
    build_k_table,
    list_differences,
    read_hits,
)
from sonde.results.schema import has_dimensions

_ALIAS_LABELS: Mapping[str, str] = {"alias": "right alias", "adversarial": "alias of another module"}


_DIFFERENCE = "difference, paired"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw curves under either alias, and their difference."""
    curve_rows = rows.with_columns(who=pl.col("template").replace(dict(_ALIAS_LABELS)))
    condition = has_dimensions({TEMPLATE: "alias-adversarial"})
    difference_rows = sort_by_k(run, run.scores(metrics=["p_at_k"], where=condition, lens=LENS))
    pairs = difference_rows.with_columns(who=pl.lit(_DIFFERENCE), name=pl.format("k = {}", "k"))
    charts = [
        Chart(
            name="cloze-alias",
            title="Right among the first k",
            spec=plot_curves(curve_rows, list(_ALIAS_LABELS.values())),
        )
    ]
    if pairs.height:
        spec = plot_dots(
            pairs.with_columns(shown="subject"),
            pairs["name"].unique(maintain_order=True).to_list(),
            "right alias minus wrong one, percentage points",
            "queries",
            scale=100,
        )
        charts.append(Chart(name="cloze-alias-paired", title="Paired difference", spec=spec))
    order = {name: index for index, name in enumerate((*_ALIAS_LABELS.values(), _DIFFERENCE))}
    all_rows = pl.concat([curve_rows, pairs], how="diagonal")
    table_rows = all_rows.sort("place", "subject", pl.col("who").replace_strict(order), "k")
    lead = {"Of": "subject", "Alias": "who"}
    clause = "under the right alias the answer is among the first ten"
    return Figure(
        answer="\n".join(
            [*list_differences(pairs, clause, " than under a wrong one"), *_describe_aliases(run)]
        ),
        charts=charts,
        table=build_k_table(
            "Aliases at every k, in % and percentage points (INK, table 5)", table_rows, lead
        ),
    )


def _describe_aliases(run: RunData) -> list[str]:
    """Describe how many aliases a name has, once a language since it is the same for all models."""
    rows = run.scores(
        metrics=["aliases", "share_several_aliases"], where=has_dimensions({"names": "aliased"}), lens=LENS
    )
    by_language: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        by_language.setdefault(row["language"], {})[row["metric"]] = row
    return [
        f"A name of the cloze queries that is called under an alias has "
        f"{number(by_metric['aliases']['value'])} of them on average, and "
        f"{number(100 * by_metric['share_several_aliases']['value'], 1)} % have several "
        f"({plural(by_metric['aliases']['n'], 'name')} in {format_language(language)})."
        for language, by_metric in sorted(by_language.items())
        if len(by_metric) > 1
    ]


plot = SectionPlot(
    title="Names of APIs: under an alias",
    lens=LENS,
    order=403,
    caption=(
        "A module is imported under an alias, and a subtoken of a name after the alias is asked for. Then "
        "the alias is replaced by ten that the corpus uses for other modules. The difference pairs each "
        "cloze query with the mean of its ten. Intervals are 95 %, clustered by library."
    ),
    select=lambda run: read_hits(run).filter(
        pl.col("control").is_null() & pl.col("template").is_in(list(_ALIAS_LABELS))
    ),
    figure=_draw,
)
