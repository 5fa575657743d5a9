"""Constructs that surprise most and least."""

from __future__ import annotations

from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.surprisal._scores import LENS, Ranking, build_ranking


class WorstBestConstructs:
    """Ranks the dimension ``construct``."""

    title = "Constructs: where in a program it is unsure"
    lens = LENS
    order = 10
    caption = (
        "Each subword counts for the innermost construct around it, so that a call within a condition "
        "counts as a call. Dots are mean surprisal in bits, lines 95 % intervals clustered by repository "
        "or module."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Worst and best, with every other in the table."""
        return build_ranking(run, Ranking(dimension="construct", what="construct"))


plot = WorstBestConstructs()
