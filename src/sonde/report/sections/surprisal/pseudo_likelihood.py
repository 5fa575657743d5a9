"""Objective of models that see both sides: a pseudo-log-likelihood or a gap filled in."""

from __future__ import annotations

import polars as pl

from sonde.base.formatting import count
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.surprisal._scores import LENS
from sonde.results.schema import has_dimensions

_OBJECTIVE_TEXTS = {
    "pll": (
        "subwords of {language}, each predicted in a forward pass of its own from everything around it, "
        "itself and the later subwords of its code token hidden (PLL-word-l2r, Kauf and Ivanova 2023)."
    ),
    "infill": (
        "subwords of {language}, each code token left out in a forward pass of its own and predicted from "
        "the code before and after it, one subword after the other."
    ),
}


plot = SectionPlot(
    title="Models that see both sides: what is scored",
    lens=LENS,
    order=1,
    caption=("The part of a text that is hidden, and the context that predicts it."),
    select=lambda run: run.scores(
        lens=LENS,
        metrics=["bits"],
        where=has_dimensions({}) & pl.col("objective").is_in(list(_OBJECTIVE_TEXTS)),
    ),
    figure=lambda run, rows: Figure(
        answer="\n".join(
            f"{row['shown']}: {count(row['n'])} "
            f"{_OBJECTIVE_TEXTS[row['objective']].format(language=row['language'])}"
            for row in rows.sort("shown", "language").iter_rows(named=True)
        ),
        notes=(
            "Surprisal, bits and nats mean this in these sections. It uses both sides of a word and is no "
            "probability of a text. Compare it only with models that were scored in the same way, never with "
            "the surprisal of a decoder that reads from left to right.",
            "Each forward pass hides one place, so only the first items of each corpus that are short "
            "enough are read; the options masked_items and masked_characters of the lens say how many "
            "and how short.",
        ),
    ),
)
