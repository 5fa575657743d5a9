"""Predictions after each layer: surprisal, and what stays right to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.lenses.causal.findings import layers_sentence
from sonde.report.charts import (
    colour_by_kind,
    layer_axis,
    list_tooltips,
    plot_heat_map,
    plot_lines,
    split_by_subject,
)
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.causal import LENS
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import with_interval

READ: Mapping[str, str] = {
    "logit_lens": "logit lens",
    "tuned_lens": "tuned lens",
    "unigram": "how frequent the subword is in training",
}
"""Labels of the lines, in order."""


_ROWS = 24
"""Maximum number of constructs in the heat map, those with most subwords first."""


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw surprisal by layer and a heat map by construct, per model and language."""
    parts = list(split_by_subject(rows))
    construct_rows = rows.filter(
        (pl.col("method") == "logit_lens") & pl.col("control").is_null() & has_dimension_names("construct")
    )
    charts: list[Chart] = []
    for subject, slug, part in parts:
        suffix = f", {subject}" if slug else ""
        bits = part.filter((pl.col("metric") == "bits") & has_dimension_names())
        title = f"Surprisal by layer{suffix}"
        charts.append(Chart(name=f"causal-layers{slug}", title=title, spec=_plot_lines(bits)))
        settled_rows = construct_rows.filter((pl.col("metric") == "settled") & (pl.col("subject") == subject))
        if settled_rows.height:
            title = f"Right from here to the end{suffix}"
            charts.append(Chart(name=f"causal-settled{slug}", title=title, spec=_plot_map(settled_rows)))
    first = construct_rows.filter(pl.col("metric") == "first_layer").sort("value", "construct")
    last = construct_rows.filter(
        (pl.col("metric") == "bits") & (pl.col("layer") == pl.col("layer").max().over("metric", "model"))
    )
    key = ["shown", "subject", "construct"]
    return Figure(
        answer="\n".join(filter(None, (layers_sentence(subject, part) for subject, _, part in parts))),
        charts=charts,
        table=Table(
            summary="From which layer on the right subword stays on top, by construct",
            columns=[
                MODEL,
                Column(title="Construct", value="construct"),
                *score_columns(
                    "First layer",
                    2,
                    n="Right in the end",
                    help="Mean layer from which the right subword stays on top, of those right in the end.",
                ),
                Column(title="Bits in the end", value=lambda row: number(row["bits"])),
                Column(title="Subwords", value="subwords"),
            ],
            rows=first.join(last.select(*key, bits="value", subwords="n"), on=key, maintain_order="left"),
        ),
    )


def _plot_lines(bits: pl.DataFrame) -> dict[str, Any]:
    records = [
        {
            "read": READ[row["method"]],
            "layer": row["layer"],
            "value": row["value"],
            "low": row["ci_low"],
            "high": row["ci_high"],
            "reading": with_interval(row),
        }
        for row in bits.filter(pl.col("control").is_null()).sort("layer").iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=layer_axis(),
        color=colour_by_kind("read"),
        tooltip=list_tooltips({"read:N": "read through", "layer:O": "", "reading:N": "bits per subword"}),
    )
    scale, axis = (
        alt.Scale(type="log", nice=False),
        alt.Axis(values=[0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]),
    )
    references: list[alt.Chart] = []
    for row in bits.filter(pl.col("control") == "unigram").iter_rows(named=True):
        label = {"value": row["value"], "text": f"by frequency {number(row['value'])}"}
        line = alt.Chart(alt.Data(values=[label])).encode(y=alt.Y("value:Q", scale=scale))
        text = line.mark_text(style="note", align="right", baseline="bottom", dy=-3)
        references += [line.mark_rule(style="reference"), text.encode(x=alt.value("width"), text="text:N")]
    return plot_lines(
        base,
        alt.Y("value:Q", title="bits per subword (logarithmic)", scale=scale, axis=axis),
        band=alt.Y("low:Q", scale=scale, axis=axis),
        height=300,
        layers_above=references,
    )


def _plot_map(settled_rows: pl.DataFrame) -> dict[str, Any]:
    last = settled_rows.filter(pl.col("layer") == settled_rows["layer"].max())
    largest = last.sort("n", descending=True).head(_ROWS)
    order = largest.sort("value", descending=True)["construct"].to_list()
    return plot_heat_map(
        [
            {
                "construct": row["construct"],
                "layer": row["layer"],
                "value": row["value"],
                "text": f"{100 * row['value']:.0f}",
                "reading": with_interval(row, 100, 1),
                "n": row["n"],
            }
            for row in settled_rows.filter(pl.col("construct").is_in(order)).iter_rows(named=True)
        ],
        layer_axis(),
        alt.Y("construct:N", sort=order, title=None),
        {"construct:N": "", "layer:O": "", "reading:N": "right to the end, %", "n:Q": "subwords|,"},
        text="text",
        columns=settled_rows["layer"].n_unique(),
        size=10,
        step=18,
    )


plot = SectionPlot(
    title="Interventions: layers read through the head",
    lens=LENS,
    order=540,
    caption=(
        "The state after each layer (0 is the embedding) goes through the model's own final norm and head "
        "(logit lens). With causal.tuned it also goes through an affine map, trained for the layer on the "
        "training split (tuned lens). The last layer is the model's own prediction. Left: surprisal of the "
        "right subword, on a logarithmic axis, since early states confidently predict other things. Right: "
        "share of subwords whose right answer is on top from that layer to the end, by construct (logit "
        "lens). A layer that predicts nothing may hold the answer in a form that the head does not read."
    ),
    select=lambda run: run.scores(
        metrics=["bits", "settled", "first_layer"],
        where=pl.col("method").is_in(list(READ)),
        lens=LENS,
        controls=True,
    ).with_columns(subject=run.subject, construct=dimension_value("construct")),
    figure=_draw,
)
