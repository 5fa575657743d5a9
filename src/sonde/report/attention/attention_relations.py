"""Each relation's best head beside offset, keyword and the better of both (CodeSyntax, tables 6, 9 to 12)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from sonde.report._drawing.charts import row_height, specification
from sonde.report._shared.numbers import DASH, clusters, count, mark, number, with_interval
from sonde.report._shared.plot import Cell, Chart, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.attention._scores import HITS, LENS, MODEL, RELATION, gains, hits
from sonde.results.verdict import verdict_allowed

_CHARTED = "first_hit"


class AttentionRelations:
    """Best head and best baseline of every relation, joined by a line."""

    title = "Attention: relation by relation"
    lens = LENS
    order = 310
    caption = (
        "Share of edges found at once (k = 1, first word of the dependent). The dot is the best head of the "
        "relation, the diamond the better of the offset and the keyword baseline; each was chosen on "
        "validation. Hollow dots allow no verdict: too few clusters or too wide an interval. The table has "
        "first and any word, the head as layer and place counted from 0, and the offset and keyword that "
        "were chosen. Random weights lie near chance, one in the number of words, or below it: without "
        "training a head attends to all subwords alike, so a word gets as much as it has subwords, and the "
        "longest word ranks first."
    )

    def draw(self, run: RunData) -> Figure | None:
        """One chart a subject."""
        rows = hits(run, by=RELATION).filter(pl.col("k") == 1)
        if rows.is_empty():
            return None
        ahead = _ahead(run)
        subjects = rows["subject"].unique(maintain_order=True).to_list()
        charts = [
            Chart(
                name=f"attention-relations-{place}" if len(subjects) > 1 else "attention-relations",
                title=f"Found at once, {subject}",
                spec=_spec(rows.filter((pl.col("subject") == subject) & (pl.col("metric") == _CHARTED))),
                wide=True,
            )
            for place, subject in enumerate(subjects)
        ]
        return Figure(answer=_answer(ahead), charts=charts, table=_table(rows, ahead))


def _ahead(run: RunData) -> pl.DataFrame:
    """The difference to the best baseline that there is."""
    over = gains(run, "combined", by=RELATION)
    over = over if over.height else gains(run, "offset", by=RELATION)
    return over.filter(pl.col("k") == 1)


def _spec(rows: pl.DataFrame) -> dict[str, Any]:
    by_relation: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        by_relation.setdefault(row["label"], {})[row["predictor"]] = row
    records: list[dict[str, Any]] = []
    for relation, found in by_relation.items():
        own = found.get(MODEL)
        if own is None:
            continue
        other = found.get("combined") or found.get("offset")
        records.append(
            {
                "relation": relation,
                **mark(own),
                "head": f"{own['layer']}.{own['head']}",
                "baseline": other and other["value"],
            }
        )
    records.sort(key=lambda record: -record["value"])
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("relation:N", sort=[record["relation"] for record in records], title=None),
        tooltip=[
            alt.Tooltip("relation:N", title=" "),
            alt.Tooltip("reading:N", title="best head, %"),
            alt.Tooltip("head:N", title="layer.head"),
            alt.Tooltip("baseline:Q", format=".1%"),
            alt.Tooltip("n:Q", format=",", title="edges"),
        ],
    )
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("value:Q", title="edges found", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        base.mark_rule(style="joint").encode(x=x, x2="baseline:Q"),
        base.mark_rule(style="interval", clip=True).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(style="few", shape="diamond").encode(x=alt.X("baseline:Q", scale=scale)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    return specification(alt.layer(*layers).properties(height=row_height(1)))


def _answer(ahead: pl.DataFrame) -> str:
    said: list[str] = []
    rows = ahead.filter(pl.col("metric") == _CHARTED)
    for (subject,), part in rows.partition_by("subject", as_dict=True, maintain_order=True).items():
        sure = [row for row in part.iter_rows(named=True) if verdict_allowed(row)]
        won = [row["label"] for row in sure if row["ci_low"] > 0]
        lost = [row["label"] for row in sure if row["ci_high"] < 0]
        said.append(
            f"{subject}: of {len(sure)} relations that allow a verdict, the best head is ahead of the "
            f"baselines in {len(won)}{_named(won)} and behind in {len(lost)}{_named(lost)}."
        )
    return "\n".join(said)


def _named(names: list[str], most: int = 3) -> str:
    if not names:
        return ""
    return f" ({', '.join(sorted(names)[:most])}{', …' if len(names) > most else ''})"


def _table(rows: pl.DataFrame, ahead: pl.DataFrame) -> Table:
    columns = [
        "Relation", "Of", "Found", "Best head", "Layer.head", "Offset", "At", "Keyword", "Which",
        "Better of both", "Difference", "Random weights", "Edges", "Clusters",
    ]  # fmt: skip
    keys = ["label", "subject", "metric"]
    differences = {tuple(row[key] for key in keys): row for row in ahead.iter_rows(named=True)}
    cells: list[list[Cell]] = []
    for key, part in (
        rows.filter(pl.col("metric").is_in(["first_hit", "any_hit"]))
        .partition_by(keys, as_dict=True, maintain_order=True)
        .items()
    ):
        found = {row["predictor"]: row for row in part.iter_rows(named=True)}
        own, difference = found.get(MODEL), differences.get(tuple(map(str, key)))
        if own is None:
            continue
        cells.append(
            [
                Cell(str(key[0])),
                Cell(str(key[1])),
                Cell(HITS[str(key[2])]),
                Cell(with_interval(own, 100, 1), own["value"]),
                Cell(f"{own['layer']}.{own['head']}", own["layer"]),
                _share(found.get("offset")),
                Cell(_chosen(found.get("offset"))),
                _share(found.get("keyword")),
                Cell(_chosen(found.get("keyword"))),
                _share(found.get("combined")),
                Cell(with_interval(difference, 100, 1), difference["value"]) if difference else Cell(DASH),
                _share(found.get("random_weights")),
                Cell(count(own["n"]), own["n"]),
                Cell(clusters(own), own["n_clusters"]),
            ]
        )
    numeric = frozenset(columns[3:]) - {"Layer.head", "At", "Which"}
    return Table(summary="Every relation, in %", columns=columns, rows=cells, numeric=numeric)


def _share(row: dict[str, Any] | None) -> Cell:
    return Cell(DASH) if row is None else Cell(number(100 * row["value"], 1), row["value"])


def _chosen(row: dict[str, Any] | None) -> str:
    return (row or {}).get("chosen") or DASH


plot = AttentionRelations()
