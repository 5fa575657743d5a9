"""Frequency in the corpus against surprisal: whether rare subwords surprise more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.base.formatting import count
from sonde.report.charts import list_tooltips, to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    is_first_subword,
    list_first_subword_notes,
    list_subword_notes,
    read_observations,
)
from sonde.report.text import lacks_verdict
from sonde.results.schema import has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import PLAIN, insufficient_data_reason, with_interval

SHOWN_POINTS = 900


_MIN_SUBWORDS = 3


_CORRELATIONS = {
    "spearman_frequency_corpus": "frequency in this corpus",
    "spearman_frequency_training": "frequency in the training data",
}


def _draw(run: RunData, charts: Sequence[Chart]) -> Figure:
    """Draw one cloud per model and a table of rank correlations."""
    rows = run.scores(lens=LENS, metrics=list(_CORRELATIONS), where=has_dimensions({})).with_columns(
        least="k"
    )
    table = Table(
        summary="Rank correlations",
        columns=[
            *([MODEL] if run.several else []),
            LANGUAGE,
            Column(
                title="Surprisal of",
                value=lambda row: (
                    f"{row['unit'] or 'subword'}s"
                    + (f", at least {row['least']} times" if row["least"] else "")
                ),
            ),
            Column(title="Against", value=lambda row: _CORRELATIONS[row["metric"]]),
            *estimate_columns(
                "Spearman", help="Rank correlation: 1 if both always rise together, else below."
            ),
            size_columns("Entries")[0],
        ],
        rows=rows,
    )
    return Figure(
        answer="\n".join(_list_answers(rows, run.several)),
        charts=charts,
        table=table if rows.height else None,
        notes=[
            f"Points are a random sample (seeded) if there are more than {SHOWN_POINTS:,} entries.",
            *list_subword_notes(run),
            *list_first_subword_notes(run),
        ],
    )


def _build_charts(run: RunData) -> list[Chart]:
    return [chart for model in run.models if (chart := _build_chart(run, model)) is not None]


def _entries(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """Read surface, count and mean bits of each vocabulary entry, sorted by its id."""
    rows = read_observations(run, model, ["subword_id", "subword", "nats", "context"])
    return (
        rows.filter(pl.col("nats").is_finite() & ~is_first_subword(run, model))
        .group_by("subword_id")
        .agg(
            subword=pl.col("subword").min(),
            count=pl.len(),
            bits=pl.col("nats").cast(pl.Float64).mean() * BITS_PER_NAT,
        )
        .sort("subword_id")
        .collect(engine="streaming")
    )


def _build_chart(run: RunData, model: ModelInfo) -> Chart | None:
    entries = _entries(run, model)
    if entries.height < _MIN_SUBWORDS:
        return None
    trend = (
        entries.with_columns(step=pl.col("count").log(2).floor())
        .group_by("step")
        .agg(
            middle=pl.col("bits").median(),
            low=pl.col("bits").quantile(0.25),
            high=pl.col("bits").quantile(0.75),
            entries=pl.len(),
        )
        .filter(pl.col("entries") >= _MIN_SUBWORDS)
        .sort("step")
        .with_columns(count=2 ** (pl.col("step") + 0.5))
    )
    share = SHOWN_POINTS / max(entries.height, 1)
    sample = [
        {"subword": row["subword"], "count": row["count"], "bits": round(row["bits"], 3)}
        for row in entries.iter_rows(named=True)
        if unit_hash("frequency_loss", row["subword_id"]) < share
    ]
    suffix = f", {model.label}" if run.several else ""
    name = f"frequency-{model.slug}" if run.several else "frequency"
    title = f"Surprisal of {count(entries.height)} vocabulary entries by frequency{suffix}"
    return Chart(name=name, title=title, spec=_build_spec(sample, trend.to_dicts()), wide=not run.several)


def _build_spec(sample: list[dict[str, Any]], trend: list[dict[str, Any]]) -> dict[str, Any]:
    x = alt.X(
        "count:Q",
        scale=alt.Scale(type="log", base=10, nice=False),
        axis=alt.Axis(
            title="occurrences in the corpus", format="~s", values=[10**power for power in range(10)]
        ),
    )
    y = alt.Y("bits:Q", title="mean surprisal, bits", scale=alt.Scale(zero=True))
    tooltip = list_tooltips({"subword:N": "", "count:Q": "|,", "bits:Q": "|.2f"})
    cloud = alt.Chart(alt.Data(values=sample)).mark_point(style="cloud", filled=True)
    line = alt.Chart(alt.Data(values=trend))
    return to_vega_lite(
        alt.layer(
            cloud.encode(x=x, y=y, tooltip=tooltip),
            line.mark_area(style="band").encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
            line.mark_line(style="trend").encode(x=x, y=alt.Y("middle:Q")),
        ).properties(height=300)
    )


def _list_answers(rows: pl.DataFrame, show_model: bool) -> Iterator[str]:
    is_subword = (pl.col("metric") == "spearman_frequency_corpus") & pl.col("unit").ne_missing("tag")
    for part in rows.filter(is_subword).partition_by("shown", "language", maintain_order=True):
        all_subwords = part.filter(pl.col("least").is_null())
        frequent_subwords = part.filter(pl.col("least").is_not_null())
        # A mean over one or two occurrences is mostly noise: what is said rests on the others.
        row = (frequent_subwords if frequent_subwords.height else all_subwords).row(0, named=True)
        scope = f" among subwords that occur {row['least']} times or more" if row["least"] else ""
        comparison = (
            f"; over all subwords {with_interval(all_subwords.row(0, named=True))}"
            if scope and all_subwords.height
            else ""
        )
        tail = insufficient_data_reason(row)
        if lacks_verdict(row) or not math.isfinite(row["ci_low"] + row["ci_high"]):
            verdict = "Too little data on whether rare subwords surprise more"
        elif row["ci_high"] < 0:
            verdict = "The rarer a subword, the more it surprises"
        elif row["ci_low"] > 0:
            verdict = "The more frequent a subword, the more it surprises"
        else:
            verdict = "Rare subwords are not found to surprise more, or less,"
            tail = PLAIN.null_result(row)
        yield (
            f"{row['shown'] + ': ' if show_model else ''}{verdict}{scope} (Spearman {with_interval(row)}"
            f"{comparison}{f'; {tail}' if tail else ''})."
        )


plot = SectionPlot(
    title="Frequency: do rare subwords surprise more?",
    lens=LENS,
    order=50,
    caption=(
        "Each point is an entry of the vocabulary: how often it occurs in the corpus, and its mean "
        "surprisal there. Line and band are the median and the middle half of the entries at that "
        "frequency."
    ),
    select=_build_charts,
    figure=_draw,
)
