"""Constructs that surprise most and least."""

from __future__ import annotations

from sonde.report.sections.surprisal._scores import RankedDimension, ranking_section

plot = ranking_section(
    RankedDimension(dimension="construct", what="construct"),
    title="Constructs: where in a program it is unsure",
    order=10,
    caption=(
        "Each subword counts for the innermost construct around it, so a call within a condition counts as "
        "a call. Dots are mean surprisal in bits, lines 95 % intervals clustered by repository or module."
    ),
)
