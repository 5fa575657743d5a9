"""What the model would say if it stopped behind each layer: surprisal, and what stays right, by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from sonde.base.formatting import number
from sonde.lenses.causal.findings import layers_sentence
from sonde.report.charts import colour_by_kind, label_cells, to_vega_lite
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import with_interval

LENS = "causal"


READ: Mapping[str, str] = {
    "logit_lens": "logit lens",
    "tuned_lens": "tuned lens",
    "unigram": "how frequent the subword is in training",
}
"""What the lines are, in their order."""


_TICKS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]


_ROWS = 24
"""Constructs that are drawn, those with most subwords first."""


class CausalLayers:
    """Lines of surprisal by layer, and a map of what stays right by construct."""

    title = "Interventions: layers read through the head"
    lens = LENS
    order = 540
    caption = (
        "The state behind each layer, 0 the embeddings, goes through the model's own final norm and head "
        "(logit lens); with causal.tuned also through an affine map before, trained for the layer on the "
        "training split (tuned lens). The last layer is the model's own prediction. On the left the "
        "surprisal of the right subword, on a logarithmic axis, since early states say other things with "
        "much confidence. On the right the share of subwords whose right answer is on top from that layer to "
        "the end, by construct (logit lens). A layer that says nothing may hold the answer in a form that "
        "the head does not read."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Charts a model and language."""
        rows = run.scores(
            metrics=["bits", "settled", "first_layer"],
            where=pl.col("method").is_in(list(READ)),
            lens=LENS,
            controls=True,
        ).with_columns(subject=run.subject, construct=dimension_value("construct"))
        if rows.is_empty():
            return None
        charts: list[Chart] = []
        said: list[str] = []
        parts = rows.partition_by("subject", as_dict=True, maintain_order=True)
        for place, ((subject,), part) in enumerate(parts.items()):
            ending = f"-{place}" if len(parts) > 1 else ""
            of = f", {subject}" if len(parts) > 1 else ""
            charts.append(
                Chart(name=f"causal-layers{ending}", title=f"Surprisal by layer{of}", spec=_lines(part))
            )
            settled = _by_construct(part, "settled")
            if settled.height:
                title = f"Right from here to the end{of}"
                charts.append(Chart(name=f"causal-settled{ending}", title=title, spec=_map(settled)))
            said.append(layers_sentence(str(subject), part))
        return Figure(answer="\n".join(filter(None, said)), charts=charts, table=_build_table(rows))


def _overall(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    return rows.filter((pl.col("metric") == metric) & has_dimension_names())


def _by_construct(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    own = (pl.col("method") == "logit_lens") & pl.col("control").is_null()
    return rows.filter((pl.col("metric") == metric) & has_dimension_names("construct") & own)


def _lines(rows: pl.DataFrame) -> dict[str, Any]:
    bits = _overall(rows, "bits")
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
    scale = alt.Scale(type="log", nice=False)
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        color=colour_by_kind("read"),
        tooltip=[
            alt.Tooltip("read:N", title="read through"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("reading:N", title="bits a subword"),
        ],
    )
    axis = alt.Axis(values=_TICKS)
    y = alt.Y("value:Q", title="bits a subword (logarithmic)", scale=scale, axis=axis)
    layers: list[alt.Chart] = [
        base.mark_area(style="band").encode(y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"),
        base.mark_line(style="trend", point=True).encode(y=y),
    ]
    for row in bits.filter(pl.col("control") == "unigram").iter_rows(named=True):
        line = alt.Chart(
            alt.Data(values=[{"value": row["value"], "text": f"by frequency {number(row['value'])}"}])
        )
        layers.append(line.mark_rule(style="reference").encode(y=alt.Y("value:Q", scale=scale)))
        text = line.mark_text(style="note", align="right", baseline="bottom", dy=-3)
        layers.append(text.encode(y=alt.Y("value:Q", scale=scale), x=alt.value("width"), text="text:N"))
    return to_vega_lite(alt.layer(*layers).properties(height=300))


def _map(settled: pl.DataFrame) -> dict[str, Any]:
    last = settled.filter(pl.col("layer") == settled["layer"].max())
    chosen = last.sort("n", descending=True).head(_ROWS)
    order = chosen.sort("value", descending=True)["construct"].to_list()
    records = [
        {
            "construct": row["construct"],
            "layer": row["layer"],
            "value": row["value"],
            "text": f"{100 * row['value']:.0f}",
            "reading": with_interval(row, 100, 1),
            "n": row["n"],
        }
        for row in settled.filter(pl.col("construct").is_in(order)).iter_rows(named=True)
    ]
    base = alt.Chart(alt.Data(values=records)).encode(
        x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("construct:N", sort=order, title=None),
        tooltip=[
            alt.Tooltip("construct:N"),
            alt.Tooltip("layer:O"),
            alt.Tooltip("reading:N", title="right to the end, %"),
            alt.Tooltip("n:Q", format=",", title="subwords"),
        ],
    )
    colour = alt.Color("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), legend=None)
    cells = base.mark_rect().encode(color=colour)
    texts = label_cells(base, "text:N", settled["layer"].n_unique(), 10)
    return to_vega_lite(alt.layer(cells, *texts).properties(height=alt.Step(18)))


def _build_table(rows: pl.DataFrame) -> Table:
    """A line a construct: what the last layer says, what stays, and from where."""
    key = ["shown", "subject", "construct"]
    own = rows.filter(
        (pl.col("method") == "logit_lens") & pl.col("control").is_null() & has_dimension_names("construct")
    )
    first = own.filter(pl.col("metric") == "first_layer").sort("value", "construct")
    last = own.filter(pl.col("metric") == "bits").filter(
        pl.col("layer") == pl.col("layer").max().over("model")
    )
    bits = last.select(*key, bits="value", subwords="n")
    return Table(
        summary="From which layer on the right subword stays on top, by construct",
        columns=[
            MODEL,
            Column(title="Construct", value="construct"),
            *score_columns(
                "First layer", 2, n="Right in the end",
                help="Mean layer from which the right subword stays on top, of those right in the end.",
            ),
            Column(title="Bits in the end", value=lambda row: number(row["bits"])),
            Column(title="Subwords", value="subwords"),
        ],
        rows=first.join(bits, on=key, maintain_order="left"),
    )  # fmt: skip


plot = CausalLayers()
