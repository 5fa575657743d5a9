"""Which libraries a model knows, each name weighted by how many other repositories call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import ANSWERERS, LENS, to_percent
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT, PERCENT, caveat, with_interval

_METRICS = ["known_by_use", "known_by_use_gain", "asked_by_use", "names"]


_SHOWN = 30


_DECILES = [str(decile) for decile in range(1, 11)]


def _draw(run: RunData, models: object) -> Figure | None:
    """Nothing where no library is called from another repository."""
    rows = run.scores(
        metrics=_METRICS, where=dimension_value("library").is_not_null(), lens=LENS, controls=True
    )
    rows = rows.with_columns(
        library=dimension_value("library"),
        decile=dimension_value("decile"),
        shown=run.subject,
        name=dimension_value("library"),
    )
    whole = rows.filter(has_dimension_names("library"))
    known = whole.filter((pl.col("metric") == "known_by_use") & pl.col("control").is_null())
    if known.is_empty():
        return None
    order = (
        known.group_by("name")
        .agg(pl.col("n_clusters").max(), pl.col("n").max())
        .sort("n_clusters", "n", "name", descending=[True, True, False])
    )["name"].to_list()
    most = order[:_SHOWN]
    chart = Chart(
        name="cloze-libraries",
        title="Libraries that most repositories call" if len(order) > _SHOWN else "Every library",
        spec=plot_dots(to_percent(known.filter(pl.col("name").is_in(most))), most, "Uses of known names, %"),
        wide=True,
    )
    return Figure(
        answer="\n".join(_describe_known_libraries(known, most)),
        charts=[chart],
        table=_build_table(rows, order),
        notes=(
            *_describe_omitted_uses(whole),
            "The names themselves, with their tenth, their callers and their rank, lie in libraries/, a "
            "CSV file a model.",
            "Asked says of how many uses the name was ranked at all.",
        ),
    )


def _describe_known_libraries(known: pl.DataFrame, most: list[str]) -> list[str]:
    """A sentence a model: the libraries that most repositories call."""
    lines: list[str] = []
    for (subject,), mine in known.group_by("shown", maintain_order=True):
        held = {row["library"]: row for row in mine.iter_rows(named=True)}
        shown = [(one, held[one]) for one in most[:5] if one in held]
        said = [f"{one} {with_interval(row, 100, 0)} %{caveat(row)}" for one, row in shown]
        lines.append(f"{subject} knows, of the uses by other repositories: {', '.join(said)}.")
    return lines


def _describe_omitted_uses(whole: pl.DataFrame) -> list[str]:
    """A sentence a model whose tokenizer leaves uses out."""
    asked = whole.filter((pl.col("metric") == "asked_by_use") & pl.col("control").is_null())
    lines: list[str] = []
    for (subject,), mine in asked.group_by("shown", maintain_order=True):
        total = int(mine["n"].sum())
        missing = total - round((mine["value"] * mine["n"]).sum())
        if missing:
            lines.append(
                f"{subject}: {missing:,} of {total:,} uses were not asked because its tokenizer does not "
                "have the answer as one subtoken; cloze.objective=answers asks them."
            )
    return lines


def _build_table(rows: pl.DataFrame, order: list[str]) -> Table:
    places = {name: place for place, name in enumerate(order)}
    records: list[dict[str, object]] = []
    whole = rows.filter(pl.col("decile").is_null() & has_dimension_names("library"))
    for mine in whole.partition_by("model", "language", "library", maintain_order=True):
        held = {(row["metric"], row["control"]): row for row in mine.iter_rows(named=True)}
        if ("asked_by_use", None) not in held:
            continue
        row = held.get(("known_by_use", None)) or {**held["asked_by_use", None], "value": None}
        same = [pl.col(one) == row[one] for one in ("model", "language", "library")]
        tenths = rows.filter(
            *same,
            pl.col("decile").is_not_null()
            & pl.col("control").is_null()
            & (pl.col("metric") == "known_by_use"),
        )
        controls = [one for one in held.values() if one["control"] and one["metric"] == "known_by_use"]
        best = max(controls, key=lambda one: one["value"], default=None)
        records.append(
            {
                **row,
                "asked": held["asked_by_use", None]["value"],
                "names": names["value"] if (names := held.get(("names", None))) else None,
                "control_said": ""
                if best is None
                else f"{ANSWERERS.get(best['control'], best['control'])} {with_interval(best, 100, 1)}",
                "gain": None if best is None else _gain(held.get(("known_by_use_gain", best["control"]))),
                "tenths": dict(tenths.select("decile", "value").iter_rows()),
            }
        )
    records.sort(key=lambda row: (places.get(str(row["library"]), len(places)), str(row["shown"])))
    return Table(
        summary="Every library, and its names by tenths of use, in %",
        columns=[
            Column(title="Library", value="library"),
            MODEL,
            Column(
                title="Names",
                value="names",
                format=COUNT,
                help="Names that are asked about and called elsewhere.",
            ),
            *score_columns(
                "Known, %", 1, 100, n="Uses", clusters="Callers",
                help="The name ranks first; a name counts once a repository that calls it.",
            ),
            Column(title="Best control, %", value="control_said", help="What answers without knowing names."),
            Column(
                title="Above it, points",
                value="gain",
                help="The model less this control on the same uses, in percentage points, with its interval.",
            ),
            Column(title="Asked, %", value="asked", format=PERCENT, help="Uses whose name was ranked."),
            *(
                Column(
                    title=f"Tenth {one}",
                    value=lambda row, one=one: row["tenths"].get(one),
                    format=PERCENT,
                    help="Known, in % of the uses; tenth 1 has the names with most callers.",
                )
                for one in _DECILES
            ),
        ],
        rows=records,
    )  # fmt: skip


def _gain(row: Mapping[str, Any] | None) -> str | None:
    return None if row is None else with_interval(row, 100, 1)


plot = SectionPlot(
    title="Names of APIs: libraries by use",
    lens=LENS,
    order=409,
    caption=(
        "The share of a library's uses that are of names whose last level the model gets right at the first "
        "try, in calls and imports. A name counts once for every other repository of the corpus (of "
        "installed packages: every other distribution) that calls it; these repositories are the clusters of "
        "the 95 % intervals. The tenths go from the names that most repositories call to those that fewest "
        "do; a library of fewer than ten names has none."
    ),
    select=lambda run: run.models,
    figure=_draw,
)
