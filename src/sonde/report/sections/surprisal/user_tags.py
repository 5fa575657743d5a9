"""Surprisal by the labels that the user put on the text."""

from __future__ import annotations

from sonde.report.run_tables import RunData
from sonde.report.section import Figure
from sonde.report.sections.surprisal._scores import LENS, Ranking, build_ranking


class UserTags:
    """Ranks the dimension ``user_tag``; nothing where the corpus carries no labels."""

    title = "Your labels"
    lens = LENS
    order = 35
    caption = (
        "Mean surprisal of the subwords under each label that came with the corpus, with 95 % intervals "
        "clustered by repository, module or file. A subword under several labels counts for each."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Every label, or both ends where there are many."""
        return build_ranking(run, Ranking(dimension="user_tag", what="label"))


plot = UserTags()
