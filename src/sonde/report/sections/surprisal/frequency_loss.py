"""Whether rare subwords surprise more: frequency in the corpus against surprisal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.base.formatting import count
from sonde.report.charts import to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure
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
from sonde.results.tables import LANGUAGE, MODEL, Column, N, Table, estimate_columns
from sonde.results.text_format import describe_null_result, insufficient_data_reason, with_interval

SHOWN_POINTS = 900


_MIN_SUBWORDS = 3


_POWERS = [10**power for power in range(10)]


_CORRELATIONS = {
    "spearman_frequency_corpus": "frequency in this corpus",
    "spearman_frequency_training": "frequency in the training data",
}


class FrequencyLoss:
    """A point a vocabulary entry, with the median and quartiles of each doubling of frequency."""

    title = "Frequency: do rare subwords surprise more?"
    lens = LENS
    order = 50
    caption = (
        "Each point is one entry of the vocabulary: how often the corpus holds it, and its mean surprisal "
        "there. Line and band are the median and the middle half of the entries at that frequency."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The cloud of each model, and the rank correlations."""
        charts = [chart for model in run.models if (chart := _build_chart(run, model)) is not None]
        if not charts:
            return None
        rows = run.scores(lens=LENS, metrics=list(_CORRELATIONS), where=has_dimensions({})).with_columns(
            least="k"
        )
        sampled = f"Points are a random sample (seeded) where there are more than {SHOWN_POINTS:,} entries."
        notes = [sampled, *list_subword_notes(run), *list_first_subword_notes(run)]
        return Figure(
            answer=_format_answer(rows, run.several),
            charts=charts,
            table=_build_table(rows, run.several),
            notes=notes,
        )


def _entries(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """By vocabulary id: surface, count and mean bits."""
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
        axis=alt.Axis(title="occurrences in the corpus", format="~s", values=_POWERS),
    )
    y = alt.Y("bits:Q", title="mean surprisal, bits", scale=alt.Scale(zero=True))
    tooltip = [
        alt.Tooltip("subword:N"),
        alt.Tooltip("count:Q", format=","),
        alt.Tooltip("bits:Q", format=".2f"),
    ]
    cloud = alt.Chart(alt.Data(values=sample)).mark_point(style="cloud", filled=True)
    line = alt.Chart(alt.Data(values=trend))
    return to_vega_lite(
        alt.layer(
            cloud.encode(x=x, y=y, tooltip=tooltip),
            line.mark_area(style="band").encode(x=x, y=alt.Y("low:Q"), y2="high:Q"),
            line.mark_line(style="trend").encode(x=x, y=alt.Y("middle:Q")),
        ).properties(height=300)
    )


def _format_answer(rows: pl.DataFrame, several: bool) -> str:
    sentences: list[str] = []
    of_subwords = (pl.col("metric") == "spearman_frequency_corpus") & pl.col("unit").ne_missing("tag")
    for part in rows.filter(of_subwords).partition_by("shown", "language", maintain_order=True):
        every = part.filter(pl.col("least").is_null())
        often = part.filter(pl.col("least").is_not_null())
        # A mean over one or two occurrences is mostly noise: what is said rests on the others.
        said = (often if often.height else every).row(0, named=True)
        among = f" among subwords that occur {said['least']} times or more" if said["least"] else ""
        beside = (
            f"; over all subwords {with_interval(every.row(0, named=True))}" if among and every.height else ""
        )
        who = f"{said['shown']}: " if several else ""
        tail = describe_null_result(said, digits=2) if _is_level(said) else insufficient_data_reason(said)
        sentences.append(
            f"{who}{_verdict(said)}{among} (Spearman {with_interval(said)}{beside}{tail and f'; {tail}'})."
        )
    return "\n".join(sentences)


def _verdict(row: dict[str, Any]) -> str:
    low, high = row["ci_low"], row["ci_high"]
    if lacks_verdict(row) or low is None or high is None or not math.isfinite(low + high):
        return "Too little data on whether rare subwords surprise more"
    if high < 0:
        return "The rarer a subword, the more it surprises"
    if low > 0:
        return "The more frequent a subword, the more it surprises"
    return "Rare subwords are not found to surprise more, or less,"


def _is_level(row: dict[str, Any]) -> bool:
    """Whether a correlation allows a verdict and is not told from 0."""
    return not lacks_verdict(row) and row["ci_low"] <= 0 <= row["ci_high"]


def _build_table(rows: pl.DataFrame, several: bool) -> Table | None:
    if rows.is_empty():
        return None
    return Table(
        summary="Rank correlations",
        columns=[
            *([MODEL] if several else []),
            LANGUAGE,
            Column(title="Surprisal of", value=_format_unit),
            Column(title="Against", value=lambda row: _CORRELATIONS[row["metric"]]),
            *estimate_columns(
                "Spearman", help="Rank correlation: 1 where both always rise together, else below."
            ),
            N,
        ],
        rows=rows,
    )


def _format_unit(row: Mapping[str, Any]) -> str:
    what = f"{row['unit'] or 'subword'}s"
    return f"{what}, at least {row['least']} times" if row["least"] else what


plot = FrequencyLoss()
