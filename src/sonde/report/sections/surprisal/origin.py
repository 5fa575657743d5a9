"""Calls into the repository against calls out of it, under several weightings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from sonde.report.charts import (
    colour_by_kind,
    list_tooltips,
    model_order,
    plot_differences,
    plot_dots,
    to_vega_lite,
)
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import (
    COUNTS,
    LENS,
    MIN_COUNT,
    list_first_subword_notes,
    read_slices,
    surprisal_columns,
)
from sonde.report.text import lacks_verdict
from sonde.results.schema import dimension_value
from sonde.results.tables import LANGUAGE, MODEL, Column, Table
from sonde.results.text_format import BITS, with_interval
from sonde.stats.verdict import no_verdict_reason

_WEIGHTINGS = {
    "unweighted": "mean of tag means",
    "count": "every subword counts once",
    "count_common": "the same, of tags that both sides hold often enough",
    "standardised_external": "on the external tag mix",
    "standardised_internal": "on the internal tag mix",
}


_SIDES = ("internal", "external")


_GAP = "internal-external"


_TAGS_SHOWN = 16


def _draw(run: RunData, _: pl.DataFrame) -> Figure | None:
    """Draw the means under each weighting, their differences, and pairs within syntax tags."""
    slices = read_slices(run, "origin", task="call_origin", metric="nats")
    row_filter = pl.col("label").is_in([*_SIDES, _GAP]) & pl.col("weighting").is_in(list(_WEIGHTINGS))
    positions = {name: position for position, name in enumerate(_WEIGHTINGS)}
    all_rows = (
        slices.rows.filter(row_filter)
        .with_columns(name=pl.col("weighting").str.replace("_", ", "), subject=run.subject)
        .sort(model_order(run), "language", pl.col("weighting").replace_strict(positions), "label")
    )
    rows, gaps = all_rows.filter(pl.col("label") != _GAP), all_rows.filter(pl.col("label") == _GAP)
    if rows.is_empty():
        return None
    # The side, after whom it is about where the run has several.
    show_subject = run.several or len(run.languages) > 1
    sides = rows.with_columns(
        shown=pl.concat_str("subject", "label", separator=", ") if show_subject else pl.col("label")
    )
    order = [name.replace("_", ", ", 1) for name in _WEIGHTINGS]
    weightings = [name for name in order if name in rows["name"]]
    counts = COUNTS[slices.unit]
    charts = [
        Chart(
            name="origin",
            title="Mean surprisal by origin of the call",
            spec=plot_dots(sides, weightings, slices.unit, counts),
        )
    ]
    if gaps.height:
        spec = plot_differences(
            gaps.with_columns(shown="subject"),
            [name for name in order if name in gaps["name"]],
            f"{slices.unit}, internal minus external",
            counts,
        )
        charts.append(Chart(name="origin-difference", title="Internal minus external", spec=spec))
    pairs = _pair_tags(read_slices(run, "origin", "tag", task="call_origin", metric="nats").rows)
    if pairs.height:
        spec = _plot_pairs(pairs, slices.unit)
        charts.append(Chart(name="origin-tags", title="Within each syntax tag", spec=spec, wide=True))
    return Figure(
        answer="\n".join(_list_answers(gaps, run)),
        charts=charts,
        table=Table(
            summary="Every weighting",
            columns=[
                MODEL,
                LANGUAGE,
                Column(
                    title="Calls",
                    value=lambda row: "difference" if row["label"] == _GAP else row["label"],
                    help="Whether what is called is defined in the same repository or outside it.",
                ),
                Column(
                    title="Weighting",
                    value=lambda row: f"{row['name']}: {_WEIGHTINGS[row['weighting']]}",
                    help="How the mean weights subwords and tags.",
                ),
                *surprisal_columns(slices.unit),
            ],
            rows=pl.concat([rows, gaps]),
        ),
        notes=[
            f"Pairs are of tags with at least {MIN_COUNT} on each side, {_TAGS_SHOWN} of each model.",
            *slices.notes,
            *list_first_subword_notes(run),
        ],
    )


def _pair_tags(rows: pl.DataFrame) -> pl.DataFrame:
    """Pair internal and external bits by model and tag, for the most frequent tags of each model."""
    rows = rows.with_columns(side=dimension_value("origin"), tag=dimension_value("tag")).filter(
        pl.col("side").is_in(list(_SIDES)) & (pl.col("n") >= MIN_COUNT)
    )
    keys = ["shown", "language", "tag"]
    sides = [
        rows.filter(pl.col("side") == side).select(
            *keys, **{side: "value", f"{side}_low": "ci_low", f"{side}_high": "ci_high", f"{side}_n": "n"}
        )
        for side in _SIDES
    ]
    pairs = sides[0].join(sides[1], on=keys).with_columns(total=pl.col("internal_n") + pl.col("external_n"))
    best = (
        pairs.sort("total", descending=True)
        .group_by("shown", "language", maintain_order=True)
        .head(_TAGS_SHOWN)
    )
    return best.sort("total", "tag", descending=[True, False])


_PAIR_TOOLTIP = {"name:N": " ", "side:N": "", "value:Q": "bits|.2f", "low:Q": "|.2f", "high:Q": "|.2f"}


def _plot_pairs(pairs: pl.DataFrame, unit: str) -> dict[str, Any]:
    show_subject = pairs.select(pl.concat_str("shown", "language", separator=" · ").n_unique()).item() > 1
    tag = pl.col("tag").str.replace_all(" -> ", " → ", literal=True)
    tag_rows = pairs.with_columns(
        name=pl.concat_str("tag", "shown", "language", separator=" · ") if show_subject else tag
    )
    sides = [
        tag_rows.select(
            "name", "internal", "external", side=pl.lit(side), value=side, low=f"{side}_low",
            high=f"{side}_high", n=f"{side}_n",
        )
        for side in _SIDES
    ]  # fmt: skip
    base = alt.Chart(alt.Data(values=pl.concat(sides).to_dicts())).encode(
        y=alt.Y("name:N", sort=tag_rows["name"].to_list(), title=None, axis=alt.Axis(labelLimit=320)),
        tooltip=list_tooltips(_PAIR_TOOLTIP | {"n:Q": f"{COUNTS[unit]}|,"}),
    )
    joint = base.transform_filter("datum.side == 'internal'").mark_rule(style="joint")
    x = alt.X("value:Q", title=unit, scale=alt.Scale(zero=True))
    return to_vega_lite(
        alt.layer(
            joint.encode(x=alt.X("internal:Q", title=unit), x2="external:Q"),
            base.mark_point(style="dot", filled=True).encode(x=x, color=colour_by_kind("side")),
        ).properties(height=alt.Step(24))
    )


def _list_answers(gaps: pl.DataFrame, run: RunData) -> Iterator[str]:
    for part in gaps.partition_by("shown", "language", maintain_order=True):
        rows = part.to_dicts()
        subject_parts = [rows[0]["shown"]] if run.several else []
        subject_parts += [rows[0]["language"]] if len(run.languages) > 1 else []
        prefix = f"{', '.join(subject_parts)}: " if subject_parts else ""
        firm = [row for row in rows if not lacks_verdict(row) and row["ci_low"] is not None]
        readings = "; ".join(
            f"{row['name']} {_describe_sign(row)}, {with_interval(row)} bits" for row in firm
        )
        yield (
            f"{prefix}Internal calls against external ones: {readings}."
            if firm
            else f"{prefix}Too little data on internal calls against external ones "
            f"({no_verdict_reason(rows[0])}): {rows[0]['name']} {with_interval(rows[0])} bits."
        )


def _describe_sign(row: dict[str, Any]) -> str:
    if row["ci_low"] > 0:
        return "more surprising"
    return "less surprising" if row["ci_high"] < 0 else BITS.null_result(row)


plot = SectionPlot(
    title="Calls: own code against outside code",
    lens=LENS,
    order=80,
    caption=(
        "Internal calls go to names that another file of the repository defines, external calls to names "
        "that it does not define. Builtins and names defined only in the same file are separate. Count "
        "weights every subword alike. The other weightings leave out tags that are rare on one side. The "
        "weighting “count, common” gives every subword of the remaining tags the same weight. The "
        "“unweighted” mean is that of the tags' means (as PERPLEXED reports it). The “standardised” means "
        "give both sides the same mix of tags, once that of the external and once that of the internal "
        "calls. If they disagree, the mix of tags makes the difference."
    ),
    select=lambda run: read_slices(run, "origin", task="call_origin", metric="nats").rows,
    figure=_draw,
)
