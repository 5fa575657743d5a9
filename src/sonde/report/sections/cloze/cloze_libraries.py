"""Libraries that a model knows, each name weighted by how many other repositories call it."""

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
from sonde.results.text_format import COUNT, PERCENT, verdict_mark, with_interval

_CHART_LIBRARIES = 30


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw the libraries that most repositories call; nothing if none is called from other repositories."""
    is_model = pl.col("control").is_null()
    library_rows = rows.filter(has_dimension_names("library"))
    known_rows = library_rows.filter((pl.col("metric") == "known_by_use") & is_model)
    if known_rows.is_empty():
        return None
    uses = known_rows.group_by("name").agg(pl.col("n_clusters").max(), pl.col("n").max())
    order = uses.sort("n_clusters", "n", "name", descending=[True, True, False])["name"].to_list()
    top_names = order[:_CHART_LIBRARIES]
    spec = plot_dots(
        known_rows.filter(pl.col("name").is_in(top_names)),
        top_names,
        "Uses of known names, %",
        "uses",
        scale=100,
    )
    title = "Libraries that most repositories call" if len(order) > _CHART_LIBRARIES else "Every library"
    asked_rows = library_rows.filter((pl.col("metric") == "asked_by_use") & is_model)
    return Figure(
        answer="\n".join(_describe_libraries(known_rows, top_names[:5])),
        charts=[Chart(name="cloze-libraries", title=title, spec=spec, wide=True)],
        table=_build_table(rows, order),
        notes=(
            *_describe_omissions(asked_rows),
            "The names themselves, with their tenth, their callers and their rank, lie in libraries/, "
            "one CSV file per model.",
            "Asked says of how many uses the name was ranked at all.",
        ),
    )


def _read_rows(run: RunData) -> pl.DataFrame:
    library = dimension_value("library")
    rows = run.scores(
        metrics=["known_by_use", "known_by_use_gain", "asked_by_use", "names"],
        where=library.is_not_null(),
        lens=LENS,
        controls=True,
    )
    return rows.with_columns(
        library=library, name=library, decile=dimension_value("decile"), shown=run.subject
    )


def _describe_libraries(rows: pl.DataFrame, names: list[str]) -> Iterator[str]:
    """Yield a sentence per model: the libraries that most repositories call."""
    for (subject,), subject_rows in rows.group_by("shown", maintain_order=True):
        by_library = {row["library"]: row for row in subject_rows.iter_rows(named=True)}
        shares = [
            f"{name} {with_interval(by_library[name], 100, 0)} %{verdict_mark(by_library[name])}"
            for name in names
            if name in by_library
        ]
        yield f"{subject} knows, of the uses by other repositories: {', '.join(shares)}."


def _describe_omissions(rows: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence for each model whose tokenizer leaves uses out."""
    for (subject,), subject_rows in rows.group_by("shown", maintain_order=True):
        total = int(subject_rows["n"].sum())
        if missing := total - round((subject_rows["value"] * subject_rows["n"]).sum()):
            yield (
                f"{subject}: {missing:,} of {total:,} uses were left out because its tokenizer does not "
                "have the answer as one subtoken; cloze.objective=answers includes them."
            )


def _name_control(row: Mapping[str, Any]) -> str:
    return f"{ANSWERERS.get(row['control'], row['control'])} {with_interval(row, 100, 1)}"


def _build_table(rows: pl.DataFrame, order: list[str]) -> Table:
    records: list[dict[str, Any]] = []
    for library_rows in rows.partition_by("model", "language", "library", maintain_order=True):
        by_metric = {
            (row["metric"], row["control"]): row
            for row in library_rows.filter(pl.col("decile").is_null()).to_dicts()
        }
        if (asked_row := by_metric.get(("asked_by_use", None))) is None:
            continue
        known_row = by_metric.get(("known_by_use", None)) or {**asked_row, "value": None}
        controls = [
            row for (metric, control), row in by_metric.items() if metric == "known_by_use" and control
        ]
        best = max(controls, key=lambda row: row["value"], default=None)
        gain = by_metric.get(("known_by_use_gain", best["control"])) if best else None
        tenths = library_rows.filter(
            pl.col("decile").is_not_null()
            & pl.col("control").is_null()
            & (pl.col("metric") == "known_by_use")
        )
        records.append(
            {
                **known_row,
                "asked": asked_row["value"],
                "names": by_metric.get(("names", None), {}).get("value"),
                "control_said": _name_control(best) if best else "",
                "gain": gain and with_interval(gain, 100, 1),
                "tenths": dict(tenths.select("decile", "value").iter_rows()),
            }
        )
    positions = {name: index for index, name in enumerate(order)}
    records.sort(key=lambda row: (positions.get(row["library"], len(positions)), row["shown"]))
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
            Column(title="Best control, %", value="control_said", help="Best answers without knowing names."),
            Column(
                title="Above it, points",
                value="gain",
                help="The model less this control on the same uses, in percentage points, with its interval.",
            ),
            Column(title="Asked, %", value="asked", format=PERCENT, help="Uses whose name was ranked."),
            *(
                Column(
                    title=f"Tenth {tenth}, %",
                    value=lambda row, tenth=tenth: row["tenths"].get(str(tenth)),
                    format=PERCENT,
                    help="Known, in % of the uses; tenth 1 has the names with most callers.",
                )
                for tenth in range(1, 11)
            ),
        ],
        rows=records,
    )  # fmt: skip


plot = SectionPlot(
    title="Names of APIs: libraries by use",
    lens=LENS,
    order=409,
    caption=(
        "Share of a library's uses whose name's last level the model gets right at the first try, in calls "
        "and imports. A name counts once for every other repository of the corpus (of installed packages: "
        "every other distribution) that calls it; these repositories are the clusters of the 95 % "
        "intervals. Tenths go from the names that most repositories call to those that fewest do. "
        "Libraries with fewer than ten names have none."
    ),
    select=_read_rows,
    figure=_draw,
)
