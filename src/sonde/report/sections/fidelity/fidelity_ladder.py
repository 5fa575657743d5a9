"""Models compared with their base: size, divergence, flips and loss, and the smallest that is not worse."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sonde.languages import format_language
from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.fidelity import read_ladders
from sonde.results.fidelity import LENS, Ladder, describe_smallest, ladder_columns
from sonde.results.schema import has_dimensions
from sonde.results.tables import LANGUAGE, Column, Table, size_columns
from sonde.results.text_format import Number


def _draw(run: RunData, ladders: Sequence[Ladder]) -> Figure:
    """Draw divergence and flips of each model, with the whole ladder as a table."""
    several = len(ladders) > 1
    prefixes = [f"{format_language(ladder.language)}: " if several else "" for ladder in ladders]
    sentences = [
        f"{prefix}{describe_smallest(ladder)}" for prefix, ladder in zip(prefixes, ladders, strict=True)
    ]
    rows = [row for ladder in ladders for row in ladder.rows]
    first, *columns = ladder_columns(rows)
    return Figure(
        answer="\n".join(sentences),
        charts=_plot_models(run),
        table=Table(
            summary="Every model and its base",
            columns=[
                first,
                *([LANGUAGE] if several else []),
                *columns,
                Column(title="Bits per subword", value="bits", format=Number(digits=3), help="Mean loss."),
                *size_columns("Subwords"),
            ],
            rows=rows,
        ),
        notes=[
            "Losses and gains cancel in a mean: the absolute change and the flips show what it hides.",
            "Size is that of the GGUF file, or of the weights as they are read.",
        ],
    )


def _plot_models(run: RunData) -> list[Chart]:
    charts: list[Chart] = []
    for metric, heading, unit, scale in (
        ("kl", "Divergence from the base", "KL, nats per subword", 1.0),
        ("flips", "Answers won or lost", "flips, % of the subwords", 100.0),
    ):
        rows = run.scores(lens=LENS, metrics=[metric], where=has_dimensions({}))
        rows = rows.with_columns(name=run.subject, shown=pl.lit("")).sort("value")
        spec = plot_dots(
            rows, rows["name"].unique(maintain_order=True).to_list(), unit, "subwords", scale=scale
        )
        charts.append(Chart(name=f"fidelity-{metric}", title=heading, spec=spec))
    return charts


plot = SectionPlot(
    title="Fidelity: what the change of weights costs",
    lens=LENS,
    order=640,
    caption=(
        "Each model is compared with the base on the same subwords. Dots are means, lines 95 % intervals "
        "clustered by repository or module. A model is not worse if two intervals leave out a loss that "
        "matters: that of the change of bits per byte, and that of the answers won less those lost."
    ),
    select=read_ladders,
    figure=_draw,
)
