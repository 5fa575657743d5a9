"""Each relation's best head beside offset, keyword and the better of both (CodeSyntax, tables 6, 9 to 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import join_names
from sonde.report.charts import row_height, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.attention import HITS, LENS, MODEL, RELATION, read_gains, read_hits
from sonde.report.text import to_chart_record
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import (
    PERCENT,
    PERCENT_WITH_INTERVAL,
    TOO_LITTLE,
    describe_null_results,
    with_interval,
)
from sonde.stats.verdict import allows_verdict, no_verdict_reason

_CHARTED = "first_hit"


_SHOWN = 3
"""Relations that a sentence names."""


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
        rows = read_hits(run, by=RELATION).filter(pl.col("k") == 1)
        if rows.is_empty():
            return None
        ahead = _read_gains(run)
        subjects = rows["subject"].unique(maintain_order=True).to_list()
        charts = [
            Chart(
                name=f"attention-relations-{place}" if len(subjects) > 1 else "attention-relations",
                title=f"Found at once, {subject}",
                spec=_build_spec(
                    rows.filter((pl.col("subject") == subject) & (pl.col("metric") == _CHARTED))
                ),
                wide=True,
            )
            for place, subject in enumerate(subjects)
        ]
        return Figure(answer=_format_answer(ahead), charts=charts, table=_build_table(rows, ahead))


def _read_gains(run: RunData) -> pl.DataFrame:
    """The difference to the best baseline that there is."""
    over = read_gains(run, "combined", by=RELATION)
    over = over if over.height else read_gains(run, "offset", by=RELATION)
    return over.filter(pl.col("k") == 1)


def _build_spec(rows: pl.DataFrame) -> dict[str, Any]:
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
                **to_chart_record(own),
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
        base.mark_tick(style="surface").encode(x=alt.X("baseline:Q", scale=scale)),
        base.transform_filter("!datum.few").mark_point(style="dot", filled=True).encode(x=x),
        base.transform_filter("datum.few").mark_point(style="few", filled=False).encode(x=x),
    ]
    return to_vega_lite(alt.layer(*layers).properties(height=row_height(1)))


def _format_answer(ahead: pl.DataFrame) -> str:
    said: list[str] = []
    rows = ahead.filter(pl.col("metric") == _CHARTED)
    for (subject,), part in rows.partition_by("subject", as_dict=True, maintain_order=True).items():
        sure = [row for row in part.iter_rows(named=True) if allows_verdict(row)]
        won = [row["label"] for row in sure if row["ci_low"] > 0]
        lost = [row["label"] for row in sure if row["ci_high"] < 0]
        every = f"{part.height} relation{'s' * (part.height != 1)}"
        if not sure:
            why = no_verdict_reason(part.row(0, named=True))
            values = join_names(
                [f"{row['label']} {_format_points(row)}" for row in part.head(_SHOWN).to_dicts()]
            )
            said.append(
                f"{subject}: {TOO_LITTLE} on whether the best head is ahead of the baselines in any of "
                f"{every} ({why}): {values} points{', …' * (part.height > _SHOWN)}."
            )
            continue
        level = [row for row in sure if row["ci_low"] <= 0 <= row["ci_high"]]
        rest = describe_null_results(level, 100, 1, " points")
        rest += [f"{TOO_LITTLE} in {few}"] if (few := part.height - len(sure)) else []
        said.append(
            f"{subject}: of {every}, the best head is ahead of the baselines in {len(won)}{_names(won)} and "
            f"behind in {len(lost)}{_names(lost)}{''.join(f'; {one}' for one in rest)}."
        )
    return "\n".join(said)


def _format_points(row: Mapping[str, Any]) -> str:
    return with_interval(row, 100, 1)


def _names(names: list[str], most: int = _SHOWN) -> str:
    if not names:
        return ""
    return f" ({', '.join(sorted(names)[:most])}{', …' if len(names) > most else ''})"


def _build_table(rows: pl.DataFrame, ahead: pl.DataFrame) -> Table:
    keys = ["label", "subject", "metric"]
    differences = {tuple(row[key] for key in keys): row for row in ahead.iter_rows(named=True)}
    records: list[dict[str, Any]] = []
    for key, part in (
        rows.filter(pl.col("metric").is_in(["first_hit", "any_hit"]))
        .partition_by(keys, as_dict=True, maintain_order=True)
        .items()
    ):
        found = {row["predictor"]: row for row in part.iter_rows(named=True)}
        if own := found.get(MODEL):
            records.append({**own, "by": found, "difference": differences.get(tuple(map(str, key)))})
    return Table(
        summary="Every relation, in %",
        columns=[
            Column(title="Relation", value="label", help="The relation between two words in the syntax."),
            Column(title="Of", value="subject"),
            Column(title="Found", value=lambda row: HITS[row["metric"]], help="When an edge counts."),
            Column(title="Best head", format=PERCENT_WITH_INTERVAL, help="The head that finds most edges."),
            Column(
                title="Layer.head",
                value=lambda row: f"{row['layer']}.{row['head']}",
                order="layer",
                help="Which head that is, counted from 0.",
            ),
            _predictor_column("offset", "Offset", "The other end is guessed at a fixed distance."),
            _choice_column("offset", "At", "The distance that finds most."),
            _predictor_column(
                "keyword", "Keyword", "The other end is guessed to be the nearest of a certain word."
            ),
            _choice_column("keyword", "Which", "The word that finds most."),
            _predictor_column("combined", "Better of both", "The better of offset and keyword."),
            Column(
                title="Difference",
                value="difference",
                format=PERCENT_WITH_INTERVAL,
                help="The best head minus the better of both, in points.",
            ),
            _predictor_column(
                "random_weights", "Random weights", "The best head of the model with random weights."
            ),
            *size_columns("Edges"),
        ],
        rows=records,
    )


def _predictor_column(predictor: str, title: str, explained: str) -> Column:
    return Column(title=title, value=lambda row: row["by"].get(predictor), format=PERCENT, help=explained)


def _choice_column(predictor: str, title: str, explained: str) -> Column:
    def chosen(row: Mapping[str, Any]) -> str | None:
        return row["by"].get(predictor, {}).get("chosen") or None

    return Column(title=title, value=chosen, help=explained)


plot = AttentionRelations()
