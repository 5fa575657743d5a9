"""Constructs that surprise most and least."""

from __future__ import annotations

from sonde.report._shared.plot import Figure
from sonde.report._shared.run import RunData
from sonde.report.surprisal._ranking import Ranking, rank
from sonde.report.surprisal._scores import LENS


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
        return rank(run, Ranking(dimension="construct", what="construct"))


plot = WorstBestConstructs()
