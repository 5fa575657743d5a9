"""Surprisal by kind of token and by role of identifier, and who carries most of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import count, number
from sonde.report.charts import list_tooltips, row_height, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import (
    COUNTS,
    LENS,
    RankedDimension,
    build_ranking,
    read_first_subwords,
    read_slices,
)
from sonde.results.tables import Table


def _draw(run: RunData, _: pl.DataFrame) -> Figure | None:
    """Draw mean surprisal by kind and by role, and the shares of text and of bits."""
    kinds = build_ranking(
        run, RankedDimension(dimension="kind", what="kind of token", plural="kinds of token")
    )
    if kinds is None or kinds.table is None:
        return None
    roles = build_ranking(run, RankedDimension(dimension="role", what="role", limit=10))
    table = kinds.table
    if roles is not None and roles.table is not None:
        first, *columns = table.columns
        role_rows = [{**row, "name": f"role: {row['name']}"} for row in roles.table.records()]
        table = Table(
            summary="Every kind and role",
            columns=[dataclasses.replace(first, title="Kind or role"), *columns],
            rows=[*table.records(), *role_rows],
        )
    slices = read_slices(run, "kind")
    shares, unit = _shares(slices.rows), COUNTS[slices.unit]
    qualifier = (
        "" if slices.uses_shared_tokens or read_first_subwords(run).is_empty() else " that begin no text"
    )
    return Figure(
        answer="\n".join([*_list_shares(shares, f"{unit}{qualifier}"), kinds.answer]),
        charts=[
            *(dataclasses.replace(chart, wide=False) for chart in kinds.charts),
            Chart(
                name="kind-shares",
                title=f"Share of {unit} and of all bits",
                spec=_build_spec(shares, unit),
            ),
            *(roles.charts if roles else ()),
        ],
        table=table,
        notes=kinds.notes,
    )


def _shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Compute the shares of text and of bits by model and kind, summed over languages."""
    sums = rows.group_by("shown", "label", maintain_order=True).agg(
        n=pl.col("n").sum(), bits=(pl.col("n") * pl.col("value")).sum()
    )
    return sums.with_columns(
        text=pl.col("n") / pl.col("n").sum().over("shown"),
        surprise=pl.col("bits") / pl.col("bits").sum().over("shown"),
    ).sort("surprise", descending=True)


def _list_shares(shares: pl.DataFrame, unit: str) -> Iterator[str]:
    """Yield a sentence per model on the shares of text and of bits of the most frequent kind.

    That kind is not chosen by its surprisal.
    """
    for part in shares.partition_by("shown", maintain_order=True):
        kind = part.sort("n", "label", descending=[True, False]).row(0, named=True)
        prefix = f"{kind['shown']}: " if shares["shown"].n_unique() > 1 else ""
        yield (
            f"{prefix}Of the {count(float(part['n'].sum()))} {unit}, {number(100 * kind['text'], 0)} % are "
            f"“{kind['label']}”, with {number(100 * kind['surprise'], 0)} % of their bits."
        )


def _build_spec(shares: pl.DataFrame, unit: str) -> dict[str, Any]:
    show_model = shares["shown"].n_unique() > 1
    records = [
        {
            "kind": row["label"],
            "model": row["shown"],
            "share": row[column],
            "of": name,
            "text": row["text"],
            "surprise": row["surprise"],
        }
        for row in shares.iter_rows(named=True)
        for column, name in (("text", f"of {unit}"), ("surprise", "of bits"))
    ]
    order = list(dict.fromkeys(shares["label"].to_list()))
    base = alt.Chart(alt.Data(values=records)).encode(
        y=alt.Y("kind:N", sort=order, title=None),
        tooltip=list_tooltips(
            {"kind:N": " ", "model:N": "model", "text:Q": f"of {unit}|.1%", "surprise:Q": "of bits|.1%"}
        ),
    )
    if show_model:
        base = base.encode(
            yOffset=alt.YOffset("model:N", sort=None), color=alt.Color("model:N", title=None, sort=None)
        )
    x = alt.X("share:Q", title="share", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    joint = base.transform_filter("datum.of == 'of bits'").mark_rule(style="joint")
    joint = joint.encode(x=alt.X("text:Q", title="share"), x2="surprise:Q")
    shape = alt.Shape("of:N", title=None, scale=alt.Scale(range=["circle", "diamond"]), sort=None)
    point = base.mark_point(style="dot", filled=True).encode(x=x, shape=shape)
    lines = shares["shown"].n_unique()
    return to_vega_lite(alt.layer(joint, point).properties(height=row_height(lines)))


plot = SectionPlot(
    title="Kinds of token: who carries the surprise",
    lens=LENS,
    order=15,
    caption=(
        "Spaces are layout and are kept apart from code: the probability of an indentation often falls on "
        "the token after it. Merged subwords span several code tokens. If the share of bits is above the "
        "share of subwords, the kind is harder than the average."
    ),
    select=lambda run: read_slices(run, "kind").rows,
    figure=_draw,
)
