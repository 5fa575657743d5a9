"""Which libraries a model knows, each name weighted by how many other repositories call it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.cloze import ANSWERERS, LENS
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import COUNT, PERCENT, caveat, with_interval

_METRICS = ["known_by_use", "known_by_use_gain", "asked_by_use", "names"]


_SHOWN = 30


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Nothing where no library is called from another repository."""
    own = pl.col("control").is_null()
    whole = rows.filter(has_dimension_names("library"))
    known = whole.filter((pl.col("metric") == "known_by_use") & own)
    if known.is_empty():
        return None
    uses = known.group_by("name").agg(pl.col("n_clusters").max(), pl.col("n").max())
    order = uses.sort("n_clusters", "n", "name", descending=[True, True, False])["name"].to_list()
    most = order[:_SHOWN]
    spec = plot_dots(known.filter(pl.col("name").is_in(most)), most, "Uses of known names, %", scale=100)
    title = "Libraries that most repositories call" if len(order) > _SHOWN else "Every library"
    asked = whole.filter((pl.col("metric") == "asked_by_use") & own)
    return Figure(
        answer="\n".join(_list_known(known, most[:5])),
        charts=[Chart(name="cloze-libraries", title=title, spec=spec, wide=True)],
        table=_build_table(rows, order),
        notes=(
            *_list_omitted(asked),
            "The names themselves, with their tenth, their callers and their rank, lie in libraries/, a "
            "CSV file a model.",
            "Asked says of how many uses the name was ranked at all.",
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    library = dimension_value("library")
    rows = run.scores(metrics=_METRICS, where=library.is_not_null(), lens=LENS, controls=True)
    return rows.with_columns(
        library=library, name=library, decile=dimension_value("decile"), shown=run.subject
    )


def _list_known(known: pl.DataFrame, most: list[str]) -> Iterator[str]:
    """A sentence a model: the libraries that most repositories call."""
    for (subject,), mine in known.group_by("shown", maintain_order=True):
        held = {row["library"]: row for row in mine.iter_rows(named=True)}
        said = [
            f"{name} {with_interval(held[name], 100, 0)} %{caveat(held[name])}"
            for name in most
            if name in held
        ]
        yield f"{subject} knows, of the uses by other repositories: {', '.join(said)}."


def _list_omitted(asked: pl.DataFrame) -> Iterator[str]:
    """A sentence a model whose tokenizer leaves uses out."""
    for (subject,), mine in asked.group_by("shown", maintain_order=True):
        total = int(mine["n"].sum())
        if missing := total - round((mine["value"] * mine["n"]).sum()):
            yield (
                f"{subject}: {missing:,} of {total:,} uses were not asked because its tokenizer does not "
                "have the answer as one subtoken; cloze.objective=answers asks them."
            )


def _name_control(row: Mapping[str, Any]) -> str:
    return f"{ANSWERERS.get(row['control'], row['control'])} {with_interval(row, 100, 1)}"


def _build_table(rows: pl.DataFrame, order: list[str]) -> Table:
    records: list[dict[str, Any]] = []
    for mine in rows.partition_by("model", "language", "library", maintain_order=True):
        held = {
            (row["metric"], row["control"]): row for row in mine.filter(pl.col("decile").is_null()).to_dicts()
        }
        if (asked := held.get(("asked_by_use", None))) is None:
            continue
        known = held.get(("known_by_use", None)) or {**asked, "value": None}
        controls = [row for (metric, control), row in held.items() if metric == "known_by_use" and control]
        best = max(controls, key=lambda row: row["value"], default=None)
        gain = held.get(("known_by_use_gain", best["control"])) if best else None
        tenths = mine.filter(
            pl.col("decile").is_not_null()
            & pl.col("control").is_null()
            & (pl.col("metric") == "known_by_use")
        )
        records.append(
            {
                **known,
                "asked": asked["value"],
                "names": held.get(("names", None), {}).get("value"),
                "control_said": _name_control(best) if best else "",
                "gain": gain and with_interval(gain, 100, 1),
                "tenths": dict(tenths.select("decile", "value").iter_rows()),
            }
        )
    places = {name: place for place, name in enumerate(order)}
    records.sort(key=lambda row: (places.get(row["library"], len(places)), row["shown"]))
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
                    value=lambda row, one=one: row["tenths"].get(str(one)),
                    format=PERCENT,
                    help="Known, in % of the uses; tenth 1 has the names with most callers.",
                )
                for one in range(1, 11)
            ),
        ],
        rows=records,
    )  # fmt: skip


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
    select=_read_rows,
    figure=_draw,
)
