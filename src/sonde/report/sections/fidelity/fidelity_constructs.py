"""Divergence and flips by construct, and by kind, role and position."""

from __future__ import annotations

import polars as pl

from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.results.extremes import describe_ends
from sonde.results.fidelity import LENS
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import with_interval

_METRICS = {
    "kl": ("KL, nats", 1.0, 4),
    "kl_reverse": ("KL the other way, nats", 1.0, 4),
    "kl_p99": ("KL of one in a hundred, nats", 1.0, 3),
    "same_first": ("Same first choice, %", 100.0, 2),
    "flips": ("Flips, %", 100.0, 2),
    "won": ("Answers won, %", 100.0, 2),
    "lost": ("Answers lost, %", 100.0, 2),
    "rms_probability": ("RMS change of the probability", 1.0, 4),
    "bits_change": ("Change of the loss, bits", 1.0, 4),
    "bits_distance": ("Absolute change, bits", 1.0, 4),
}


_DIMENSIONS = ("construct", "kind", "role", "position")


_MAX_CONSTRUCTS = 12


def _read_rows(run: RunData) -> pl.DataFrame:
    parts = [
        run.scores(lens=LENS, metrics=list(_METRICS), by=name).with_columns(dimension=pl.lit(name))
        for name in _DIMENSIONS
    ]
    return pl.concat(parts)


def _draw(run: RunData, rows: pl.DataFrame) -> Figure | None:
    """Draw the constructs that diverge most, with every slice as a table."""
    show_language = len(run.languages) > 1
    name = pl.format("{} · {}", "label", "language") if show_language else pl.col("label")
    constructs = rows.filter(pl.col("dimension") == "construct").with_columns(
        name=name.str.replace_all("_", " ")
    )
    order = (
        constructs.filter(pl.col("metric") == "kl")
        .group_by("name", maintain_order=True)
        .agg(pl.col("value").mean())
        .sort("value", "name", descending=[True, False])["name"]
        .head(_MAX_CONSTRUCTS)
        .to_list()
    )
    if not order:
        return None
    charts = [
        Chart(
            name=f"fidelity-constructs-{metric}",
            title=heading,
            spec=plot_dots(
                constructs.filter((pl.col("metric") == metric) & pl.col("name").is_in(order)),
                order,
                unit,
                "subwords",
                scale=scale,
            ),
        )
        for metric, heading, unit, scale in (
            ("kl", "Divergence by construct", "KL, nats per subword", 1.0),
            ("flips", "Flips by construct", "flips, % of the subwords", 100.0),
        )
    ]
    metric_order = pl.col("metric").replace_strict({name: index for index, name in enumerate(_METRICS)})
    return Figure(
        answer="\n".join(_describe_ends(constructs)),
        charts=charts,
        table=Table(
            summary="Every construct, kind, role and position",
            columns=[
                Column(title="By", value="dimension"),
                Column(title="Value", value=lambda row: row["label"].replace("_", " ")),
                *([MODEL] if run.several else []),
                Column(title="Metric", value=lambda row: _METRICS[row["metric"]][0]),
                *score_columns(
                    "Value",
                    digits=lambda row: _METRICS[row["metric"]][2],
                    scale=lambda row: _METRICS[row["metric"]][1],
                    n="Subwords",
                ),
            ],
            rows=rows.sort("dimension", "label", "shown", metric_order, maintain_order=True),
        ),
        notes=[
            f"The charts show at most {_MAX_CONSTRUCTS} constructs, sorted by divergence.",
            "The first subword of a function is in no slice.",
        ],
    )


def _describe_ends(constructs: pl.DataFrame) -> list[str]:
    """Write a sentence for each model and language on the constructs that diverge most and least."""
    sentences: list[str] = []
    parts = constructs.filter(pl.col("metric") == "kl").partition_by("shown", "language", maintain_order=True)
    for part in parts:
        sentence = describe_ends(
            part.to_dicts(),
            lambda row: f"“{row['name']}”",
            lambda row: with_interval(row, 1.0, 4),
            noun="constructs",
            verbs=("diverges most", "diverges least"),
            unit="nats",
        )
        if sentence:
            sentences.append(f"{part['shown'][0]}: {sentence}.")
    return sentences


plot = SectionPlot(
    title="Fidelity: which code changes",
    lens=LENS,
    order=641,
    caption=(
        "Each subword counts for the innermost construct around it. Dots are means, lines 95 % intervals "
        "clustered by repository or module. The table has kinds, roles and the position in the function too."
    ),
    select=_read_rows,
    figure=_draw,
)
