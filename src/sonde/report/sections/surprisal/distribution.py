"""Distribution of surprisal: most subwords cost little, a few cost most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import count, number
from sonde.report.charts import list_tooltips, row_height, to_vega_lite
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import (
    BITS_PER_NAT,
    LENS,
    is_first_subword,
    list_subword_notes,
    read_observations,
)
from sonde.results.tables import Column, Table, size_columns
from sonde.results.text_format import Number

_FINE = 20
"""Bins per bit: quantiles are exact to a twentieth of a bit, in bounded memory."""


_QUANTILES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}


def _draw(run: RunData, models: Sequence[tuple[ModelInfo, pl.DataFrame]]) -> Figure:
    """Draw boxes by kind, a histogram and a table of quantiles."""
    quantiles = pl.concat([_compute_quantiles_by_kind(frame, model) for model, frame in models])
    half_bit = pl.min_horizontal(pl.col("step") // (_FINE // 2), pl.lit(39)).alias("half")
    histogram = pl.concat(
        frame.group_by(half_bit)
        .agg(pl.col("n").sum())
        .sort("half")
        .select(
            "n", model=pl.lit(model.label), low=pl.col("half") / 2, high=pl.col("half") / 2 + 0.5,
            share=pl.col("n") / pl.col("n").sum(),
        )
        for model, frame in models
    )  # fmt: skip
    titles = ("5 %", "25 %", "Median", "75 %", "95 %")
    return Figure(
        answer="\n".join(_format_sentence(frame, model, run.several) for model, frame in models),
        charts=[
            Chart(name="distribution-kinds", title="Bits per subword by kind", spec=_plot_boxes(quantiles)),
            Chart(name="distribution", title="All subwords", spec=_plot_columns(histogram)),
        ],
        table=Table(
            summary="Quantiles by kind",
            columns=[
                Column(title="Kind", value="kind", help="The kind of code that the subwords are part of."),
                *([Column(title="Model", value="model")] if run.several else []),
                size_columns("Subwords")[0],
                *(
                    Column(
                        title=title, value=name, format=Number(), help="Bits of surprisal below which it is."
                    )
                    for title, name in zip(titles, _QUANTILES, strict=True)
                ),
            ],
            rows=quantiles,
        ),
        notes=list_subword_notes(run),
    )


def _read_models(run: RunData) -> list[tuple[ModelInfo, pl.DataFrame]]:
    """Read the counts of subwords per model, for models that have any."""
    counts = ((model, _count_by_bin(run, model)) for model in run.models)
    return [(model, frame) for model, frame in counts if not frame.is_empty()]


def _plot_boxes(quantiles: pl.DataFrame) -> dict[str, Any]:
    base = alt.Chart(alt.Data(values=quantiles.to_dicts())).encode(
        y=alt.Y("kind:N", sort=list(dict.fromkeys(quantiles["kind"])), title=None),
        tooltip=list_tooltips(
            {"kind:N": " ", "model:N": "", "n:Q": "subwords|,"} | {f"{name}:Q": "|.2f" for name in _QUANTILES}
        ),
    )
    lines = quantiles["model"].n_unique()
    if lines > 1:
        base = base.encode(
            color=alt.Color("model:N", title=None, sort=None), yOffset=alt.YOffset("model:N", sort=None)
        )
    return to_vega_lite(
        alt.layer(
            base.mark_rule(style="whisker").encode(x=alt.X("p5:Q", title="bits per subword"), x2="p95:Q"),
            base.mark_bar(style="box", height=11).encode(x=alt.X("p25:Q"), x2="p75:Q"),
            base.mark_tick(thickness=2.4, height=13, orient="vertical").encode(x=alt.X("p50:Q")),
        ).properties(height=row_height(lines))
    )


def _plot_columns(histogram: pl.DataFrame) -> dict[str, Any]:
    base = alt.Chart(alt.Data(values=histogram.to_dicts())).encode(
        x=alt.X("low:Q", title="bits per subword (19.5 and more together)"),
        x2="high:Q",
        y=alt.Y("share:Q", title="share of subwords", axis=alt.Axis(format="%"), stack=None),
        y2=alt.datum(0),
        tooltip=list_tooltips({"model:N": "", "low:Q": "from", "share:Q": "|.2%", "n:Q": "subwords|,"}),
    )
    if histogram["model"].n_unique() > 1:
        base = base.encode(color=alt.Color("model:N", title=None, sort=None))
    return to_vega_lite(base.mark_bar(style="columns", binSpacing=1).properties(height=260))


def _count_by_bin(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """Count subwords by kind and fine bin of bits; first subwords of texts are a kind of their own."""
    rows = read_observations(run, model, ["kind", "nats", "context"]).filter(pl.col("nats").is_finite())
    kind = pl.when(is_first_subword(run, model)).then(pl.lit("begins a text")).otherwise("kind").alias("kind")
    step = (pl.col("nats").cast(pl.Float64) * BITS_PER_NAT * _FINE).round().cast(pl.Int32)
    return (
        rows.group_by(kind, step.alias("step"))
        .agg(n=pl.len())
        .collect(engine="streaming")
        .sort("kind", "step")
    )


def _quantiles(counts: pl.DataFrame) -> dict[str, float]:
    by_step = counts.group_by("step").agg(pl.col("n").sum()).sort("step")
    share = by_step["n"].cum_sum() / by_step["n"].sum()
    return {
        name: by_step["step"].item(int((share < level).sum())) / _FINE for name, level in _QUANTILES.items()
    }


def _compute_quantiles_by_kind(counts: pl.DataFrame, model: ModelInfo) -> pl.DataFrame:
    rows: list[dict[str, Any]] = [
        {"model": model.label, "kind": part["kind"][0] or "unknown", "n": part["n"].sum(), **_quantiles(part)}
        for part in counts.partition_by("kind")
    ]
    return pl.DataFrame(rows).sort("p50", "p75", descending=True)


def _format_sentence(counts: pl.DataFrame, model: ModelInfo, show_model: bool) -> str:
    cheap, hard = pl.col("step") < _FINE, pl.col("step") >= 4 * _FINE
    n, bits = pl.col("n"), pl.col("n") * pl.col("step")
    sums = counts.select(
        total=n.sum(),
        cheap=n.filter(cheap).sum() / n.sum(),
        hard=n.filter(hard).sum() / n.sum(),
        share=bits.filter(hard).sum() / bits.sum(),
    ).row(0, named=True)
    return (
        f"{f'{model.label}: ' if show_model else ''}{number(100 * sums['cheap'], 0)} % of "
        f"{count(sums['total'])} subwords cost less than one bit; the {number(100 * sums['hard'], 0)} % that "
        f"cost four or more carry {number(100 * sums['share'], 0)} % of all bits."
    )


plot = SectionPlot(
    title="Distribution: many easy subwords, few hard ones",
    lens=LENS,
    order=60,
    caption=(
        "Boxes hold the middle half of the subwords of a kind, the tick is the median, and thin lines "
        "reach from the 5th to the 95th percentile. The subword that begins a text is a kind of its own: a "
        "decoder has read nothing of the text before it. Boxes describe single subwords; they are no "
        "intervals of a mean."
    ),
    select=_read_models,
    figure=_draw,
)
