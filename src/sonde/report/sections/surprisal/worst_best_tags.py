"""Syntax tags (parent and node) that surprise most and least."""

from __future__ import annotations

from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.surprisal._scores import LENS, Ranking, build_ranking


def format_tag(label: str) -> str:
    """A tag as shown: ``parent → node``."""
    return label.replace(" -> ", " → ")


class WorstBestTags:
    """Ranks the dimension ``tag``."""

    title = "Syntax: which nodes surprise it"
    lens = LENS
    order = 20
    caption = (
        "A tag names the syntax node that a subword stands in, after its parent: call → identifier is "
        "the name of a called function. Dots are mean surprisal in bits, lines 95 % intervals clustered "
        "by repository or module. A subword that spans several tokens keeps a joint tag."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Worst and best, with every other in the table."""
        return build_ranking(run, Ranking(dimension="tag", what="syntax tag", surface=format_tag))


plot = WorstBestTags()
