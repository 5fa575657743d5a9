"""How often a name is among the first k answers: calls, imports, aliased imports (INK, tables 4 and 5)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._charts import specification
from sonde.report._cloze import ANSWERERS, LENS, TEMPLATES, differences, hits
from sonde.report._numbers import DASH, clusters, count, number, with_interval
from sonde.report._plot import Cell, Chart, Figure, Table
from sonde.report._run import RunData


class ClozeCurves:
    """A curve a kind of statement, its controls beside it."""

    title = "Names of APIs: right among the first k"
    lens = LENS
    order = 400
    caption = (
        "The share of quizzes whose left-out piece is among the model's first k answers (P@k). Controls "
        "answer by the most frequent answers of other libraries, by the most frequent pieces of the training "
        "data, or with random weights. Intervals are 95 %, clustered by library."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a kind of statement."""
        rows = hits(run)
        if rows.is_empty():
            return None
        found = [template for template in TEMPLATES if template in rows["label"]]
        charts = [
            Chart(
                name=f"cloze-{template}",
                title=TEMPLATES[template].capitalize(),
                spec=_spec(rows.filter(pl.col("label") == template)),
            )
            for template in found
        ]
        return Figure(
            lead=_lead(rows),
            answer=_answer(rows, differences(run, "template=alias-adversarial")),
            charts=charts,
            table=_table(rows),
        )


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "who": ANSWERERS.get(row["who"], row["who"]),
            "subject": row["subject"],
            "k": row["k"],
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": with_interval(row, 100, 1),
        }
        for row in rows.sort("k").iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("k:Q", title="k"),
        color=alt.Color("who:N", title=None, sort=list(ANSWERERS.values())),
        detail="subject:N",
        tooltip=[
            alt.Tooltip("subject:N", title=" "),
            alt.Tooltip("who:N", title="answers"),
            alt.Tooltip("k:Q"),
            alt.Tooltip("reading:N", title="right, %"),
        ],
    )
    y = alt.Y("value:Q", title="right among the first k", axis=alt.Axis(format="%"))
    return specification(
        alt.layer(
            base.mark_line(style="trend").encode(y=y), base.mark_point(style="dot", filled=True).encode(y=y)
        )
    )


def _lead(rows: pl.DataFrame) -> str:
    own = rows.filter((pl.col("who") == "") & (pl.col("label") == "call") & (pl.col("k") == 10))
    if own.is_empty():
        return ""
    row = own.sort("value", descending=True).row(0, named=True)
    share = with_interval(row, 100, 1)
    return (
        f"{row['shown']} has the left-out piece of a call among its first ten answers in {share} % of cases."
    )


def _answer(rows: pl.DataFrame, pairs: pl.DataFrame) -> str:
    said: list[str] = []
    for (subject,), part in rows.partition_by("subject", as_dict=True, maintain_order=True).items():
        own = part.filter((pl.col("who") == "") & (pl.col("k") == 1))
        shares = [f"{TEMPLATES[row['label']]} {number(100 * row['value'], 1)} %" for row in own.to_dicts()]
        said.append(f"{subject}: right at once in {', '.join(shares)}.")
        said.extend(
            f"{subject}: under the right alias the piece is among the first ten in "
            f"{with_interval(row, 100, 1)} percentage points more of the quizzes than under a wrong one."
            for row in pairs.filter((pl.col("subject") == subject) & (pl.col("k") == 10)).to_dicts()
        )
    return "\n".join(said)


def _table(rows: pl.DataFrame) -> Table:
    ks = sorted(rows["k"].unique().to_list())
    columns = ["Statement", "Of", "Answers", *(f"P@{k}" for k in ks), "n", "Libraries"]
    cells: list[list[Cell]] = []
    for keys, part in rows.partition_by("label", "subject", "who", as_dict=True, maintain_order=True).items():
        label, subject, who = (str(key) for key in keys)
        values = {row["k"]: row for row in part.iter_rows(named=True)}
        first = values[min(values)]
        cells.append(
            [
                Cell(TEMPLATES[label]),
                Cell(subject),
                Cell(ANSWERERS.get(who, who)),
                *(
                    Cell(with_interval(values[k], 100, 1), values[k]["value"]) if k in values else Cell(DASH)
                    for k in ks
                ),
                Cell(count(first["n"]), first["n"]),
                Cell(clusters(first), first["n_clusters"]),
            ]
        )
    return Table(summary="Every k, in %", columns=columns, rows=cells, numeric=frozenset(columns[3:]))


plot = ClozeCurves()
