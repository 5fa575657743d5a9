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

_WHO: Mapping[str, str] = {"alias": "right alias", "adversarial": "alias of another module"}


_DIFFERENCE = "difference, paired"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Curves under either alias, and their difference."""
    named = rows.with_columns(who=pl.col("template").replace(dict(_WHO)))
    where = has_dimensions({TEMPLATE: "alias-adversarial"})
    found = sort_by_k(run, run.scores(metrics=["p_at_k"], where=where, lens=LENS))
    pairs = found.with_columns(who=pl.lit(_DIFFERENCE), name=pl.format("k = {}", "k"))
    charts = [
        Chart(
            name="cloze-alias",
            title="Right among the first k",
            spec=plot_curves(named, list(_WHO.values())),
        )
    ]
    if pairs.height:
        spec = plot_dots(
            pairs.with_columns(shown="subject"),
            pairs["name"].unique(maintain_order=True).to_list(),
            "right alias minus wrong one, percentage points",
            scale=100,
        )
        charts.append(Chart(name="cloze-alias-paired", title="Paired difference", spec=spec))
    order = {name: place for place, name in enumerate((*_WHO.values(), _DIFFERENCE))}
    both = pl.concat([named, pairs], how="diagonal")
    shown = both.sort("place", "subject", pl.col("who").replace_strict(order), "k")
    lead = {"Of": "subject", "Alias": "who"}
    told = "under the right alias the answer is among the first ten"
    return Figure(
        answer="\n".join([*list_differences(pairs, told, " than under a wrong one"), *_aliases(run)]),
        charts=charts,
        table=build_k_table("Aliases at every k, in % and percentage points (INK, table 5)", shown, lead),
    )


def _aliases(run: RunData) -> list[str]:
    """How many aliases a name has; the same for all models, so said once a language."""
    rows = run.scores(
        metrics=["aliases", "share_several_aliases"], where=has_dimensions({"names": "aliased"}), lens=LENS
    )
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault(row["language"], {})[row["metric"]] = row
    return [
        f"A name of the cloze queries that is called under an alias has {number(both['aliases']['value'])} "
        f"of them on average, and {number(100 * both['share_several_aliases']['value'], 1)} % have several "
        f"({plural(both['aliases']['n'], 'name')} in {format_language(language)})."
        for language, both in sorted(found.items())
        if len(both) > 1
    ]


plot = SectionPlot(
    title="Names of APIs: under an alias",
    lens=LENS,
    order=403,
    caption=(
        "A module is imported under an alias and a subtoken of the name behind it is asked for; then the "
        "alias is replaced by ten that the corpus uses for other modules. The difference pairs each cloze "
        "query with the mean of its ten. Intervals are 95 %, clustered by library."
    ),
    select=lambda run: read_hits(run).filter(
        pl.col("control").is_null() & pl.col("template").is_in(list(_WHO))
    ),
    figure=_draw,
)
